"""The embedded Spark session: what it needs, what it says when that is missing, and that it is quiet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nabla.engine.spark.java import require_java
from nabla.engine.spark.session import build_session, check_session, driver_memory
from nabla.errors import NablaError

GIGABYTE = 1 << 30


def java_home(folder: Path, release: str | None, script: str = "#!/bin/sh\n") -> Path:
    java = folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(script)
    java.chmod(0o755)
    if release is not None:
        (folder / "jdk" / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return folder / "jdk"


def test_no_java_anywhere_is_said_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NablaError, match="NABLA_NO_JAVA") as caught:
        require_java()
    assert "apt-get install openjdk-17" in caught.value.remedy


def test_a_java_home_without_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NablaError, match=r"NABLA_NO_JAVA.*without bin/java"):
        require_java()


@pytest.mark.parametrize(("release", "shown"), [("11.0.2", "Java 11"), ("1.8.0_402", "Java 8")])
def test_a_java_that_is_too_old_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, shown: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path, release)))
    with pytest.raises(NablaError, match=f"NABLA_NO_JAVA.*this is {shown}"):
        require_java()


def test_a_java_without_release_file_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n"
    home = java_home(tmp_path, None, script)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert require_java() == home / "bin" / "java"


def test_something_else_called_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path, None)))
    with pytest.raises(NablaError, match=r"NABLA_NO_JAVA.*not a Java runtime"):
        require_java()


@pytest.mark.parametrize(("machine", "driver"), [(1, "1024m"), (6, "3072m"), (64, "8192m")])
def test_the_driver_gets_half_the_memory_within_bounds(machine: int, driver: str) -> None:
    assert driver_memory(machine * GIGABYTE) == driver


def test_an_environment_for_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(NablaError, match="NABLA_SPARK_CONNECT"):
        build_session("test")


def test_a_spark_connect_session_is_refused() -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(NablaError, match="NABLA_SPARK_CONNECT"):
        check_session(connect())


def test_something_that_is_no_session_is_refused() -> None:
    with pytest.raises(NablaError, match="NABLA_NO_SESSION"):
        check_session("spark")  # type: ignore[arg-type]


@pytest.mark.spark
def test_the_embedded_session_starts_and_fails_quietly() -> None:
    code = """
from nabla.engine.spark.session import build_session
spark = build_session("quiet", {"spark.master": "local[1]"})
assert build_session("again") is spark
assert spark.range(3).count() == 3
try:
    spark.sql("SELECT * FROM nowhere")
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "AnalysisException\n", "")
