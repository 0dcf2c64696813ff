"""A Spark cluster on this machine, of processes that talk over the network as on any other: a master and its workers.

`python -m nabla.dev.testing.cluster COMMAND …` runs a command with the environment variable NABLA_TEST_MASTER set to the
address of a new cluster, and stops the cluster when the command has ended.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import pyspark

MASTER = "NABLA_TEST_MASTER"
"""The environment variable with the address of the cluster that tests run on."""
_MASTER_READY = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_READY = re.compile(r"Successfully registered with master")
_PATIENCE = 120.0


class Cluster:
    """One core and a gigabyte of memory a worker."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self._wanted = workers
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        try:
            self.address = self._start("master", "master.Master", "--port", "0", ready=_MASTER_READY)
            for number in range(self._wanted):
                self.start_worker(number)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_worker(self, number: int) -> None:
        size = ("--cores", "1", "--memory", "1200m", "--work-dir", str(self.folder / f"work-{number}"))
        self._start(f"worker-{number}", "worker.Worker", *size, self.address, ready=_WORKER_READY)

    def kill_worker(self, number: int) -> None:
        """The worker and its executors, as when its machine fails."""
        self._kill(f"worker-{number}")

    def stop(self) -> None:
        for name in list(self._processes):
            self._kill(name)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, name: str, kind: str, *options: str, ready: re.Pattern[str]) -> str:
        """Returns what the pattern finds in the log of a new process."""
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [
            str(program),
            f"org.apache.spark.deploy.{kind}",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *options,
        ]
        log = self.folder / f"{name}.log"
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(program.parents[1])}
        with log.open("wb") as output:
            # A session of its own, so that a signal reaches all processes that it starts.
            self._processes[name] = subprocess.Popen(
                command, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self._processes[name].poll() is None:
            if found := ready.search(log.read_text(errors="replace")):
                return found[found.lastindex or 0]
            time.sleep(0.1)
        raise RuntimeError(f"the {name} of the cluster did not start:\n{log.read_text(errors='replace')[-2000:]}")


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="nabla-cluster-") as folder, Cluster(Path(folder)) as cluster:
        done = subprocess.run(sys.argv[1:], env={**os.environ, MASTER: cluster.address}, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
