"""A real S3 server on this machine: Versity's S3 gateway over a folder, on the loopback address.

`make test-store` installs it. Buckets are folders, so that a lake can be copied into one and looked at from outside.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "versitygw"
JARS = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:bundle:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
"""What Spark needs to reach S3."""
_PATIENCE = 30.0


@dataclass(frozen=True)
class Server:
    """A running server: its address, the folder that has its buckets, and the log of its requests."""

    address: str
    folder: Path
    log: Path

    def make_bucket(self, name: str) -> Path:
        bucket = self.folder / name
        bucket.mkdir()
        return bucket

    def requests(self) -> list[str]:
        """All requests so far, as "GET /bucket/name"."""
        lines = (line.split("|") for line in self.log.read_text(encoding="utf-8").splitlines())
        return [f"{fields[5].strip()} {fields[6].strip()}" for fields in lines if len(fields) > 6]

    @property
    def spark_settings(self) -> dict[str, str]:
        return {
            "spark.jars.packages": ",".join(JARS),
            "spark.hadoop.fs.s3a.endpoint": self.address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }


@contextmanager
def running(scratch: Path, access: str = "nabla-tests", secret: str | None = None) -> Iterator[Server]:
    """A server with an empty folder, to which the environment of this process leads."""
    program = shutil.which(PROGRAM) or str(Path(sys.executable).with_name(PROGRAM))
    secret = secret or secrets.token_hex(16)
    folder, beside = scratch / "buckets", scratch / "attributes"
    folder.mkdir(parents=True)
    beside.mkdir()
    address = f"127.0.0.1:{_free_port()}"
    log = scratch / "requests.log"
    keys = ["--access", access, "--secret", secret]
    stored = ["posix", "--sidecar", str(beside), str(folder)]
    with log.open("w") as output:
        command = [program, "--port", address, "--keep-alive", *keys, *stored]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    before = dict(os.environ)
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{address}",
        AWS_ACCESS_KEY_ID=access,
        AWS_SECRET_ACCESS_KEY=secret,
        AWS_REGION="us-east-1",
        AWS_ALLOW_HTTP="true",  # for deltalake
    )
    try:
        _wait_for(address, process, log)
        yield Server(f"http://{address}", folder, log)
    finally:
        process.kill()
        process.wait()
        os.environ.clear()
        os.environ.update(before)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, port = address.split(":")
    until = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the S3 server does not start: {log.read_text(encoding='utf-8')[-500:]}")
