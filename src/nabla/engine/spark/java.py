"""Finding the Java that Spark will start, before Spark fails on it in ways that name no cause."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from nabla.errors import NablaError

OLDEST_JAVA = 17
INSTALL_JAVA = (
    f"Install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless) "
    "and put `java` on the PATH or set JAVA_HOME."
)


def require_java() -> Path:
    """The `java` that Spark's launcher will use: the one of JAVA_HOME, else the first on the PATH."""
    java = _find_java()
    version = _java_version(java)
    if version < OLDEST_JAVA:
        raise NablaError(
            "NABLA_NO_JAVA",
            f"Spark needs Java {OLDEST_JAVA} or newer, and this is Java {version}",
            place=str(java),
            remedy=INSTALL_JAVA,
        )
    return java


def _find_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise NablaError(
                "NABLA_NO_JAVA",
                "JAVA_HOME points to a folder without bin/java",
                place=f"JAVA_HOME={home}",
                remedy="Correct JAVA_HOME, or unset it where `java` is on the PATH.",
            )
        return java
    found = shutil.which("java")
    if found is None:
        raise NablaError(
            "NABLA_NO_JAVA",
            "Spark needs a Java runtime, and there is none",
            place="neither JAVA_HOME nor PATH has one",
            remedy=INSTALL_JAVA,
        )
    return Path(found)


def _java_version(java: Path) -> int:
    """The feature version: 17 for 17.0.15, 8 for 1.8.0_402."""
    release = java.resolve().parent.parent / "release"  # every JDK has it, and reading is faster than starting a JVM
    text = release.read_text(errors="replace") if release.is_file() else _ask_version(java)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    if match is None:
        raise NablaError(
            "NABLA_NO_JAVA", "this is not a Java runtime that tells its version", place=str(java), remedy=INSTALL_JAVA
        )
    return int(match.group(1))


def _ask_version(java: Path) -> str:
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NablaError(
            "NABLA_NO_JAVA", f"Java does not start: {error}", place=str(java), remedy=INSTALL_JAVA
        ) from error
