"""What the client for object stores does not find by itself. It knows the environment, and roles of machines and containers."""

from __future__ import annotations

import configparser
import os
from typing import Any


def settings(scheme: str) -> dict[str, Any]:
    """The arguments of a store whose URLs have this scheme."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if scheme != "s3":
        return {}
    plain = {"client_options": {"allow_http": True}} if endpoint.startswith("http://") else {}
    located = {"endpoint": endpoint} if endpoint else {}
    return {"config": {**located, **_profile()}, **plain}


def _profile() -> dict[str, str]:
    """The keys of the user's AWS profile, where the environment has none."""
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path)
        section = parser[os.environ.get("AWS_PROFILE", "default")]
    except (configparser.Error, KeyError, OSError):
        return {}
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    return {name: section[name] for name in names if name in section}
