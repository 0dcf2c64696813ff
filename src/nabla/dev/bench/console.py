"""Whether an open console slows refreshes down: `python -m nabla.dev.bench.console [ROUNDS]` prints both times.

The console runs in a process of its own, and a listener fetches the lake page after every commit as a browser does. In every
other round the process is stopped by a signal, so that both kinds of rounds see the same machine.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

import nabla

ROWS, CHANGED, ROUNDS = 100_000, 500, 20
VIEWS = {
    "by_key": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM facts GROUP BY k",
    "large": "SELECT id, k, x FROM facts WHERE x > 900",
    "top": "SELECT k, total FROM by_key WHERE total > 100000",
}


def measure(rounds: int = ROUNDS) -> tuple[float, float]:
    """The median seconds of a refresh without and with a console open."""
    with tempfile.TemporaryDirectory() as folder:
        lake = nabla.open(Path(folder) / "lake")
        lake.create_table("facts", data=_rows(0, ROWS), key="id")
        for name, query in VIEWS.items():
            lake.create_view(name, query)
        taken: dict[bool, list[float]] = {False: [], True: []}
        with _console(lake.path) as process:
            for turn in range(2 * rounds + 4):
                is_open = turn % 2 == 1
                os.kill(process, signal.SIGCONT if is_open else signal.SIGSTOP)
                time.sleep(0.3)
                with lake.transaction() as tx:
                    tx.insert("facts", _rows(ROWS + turn * CHANGED, CHANGED))
                begun = time.perf_counter()
                lake.refresh(mode="incremental")
                if turn >= 4:  # the first refreshes of a process are slower
                    taken[is_open].append(time.perf_counter() - begun)
            os.kill(process, signal.SIGCONT)
        return statistics.median(taken[False]), statistics.median(taken[True])


@contextmanager
def _console(lake: str) -> Iterator[int]:
    """A console of the lake, with somebody who looks at it."""
    command = ("-c", "from nabla.cli.main import main; main()", "ui", "--lake", lake, "--port", "0")
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+/", process.stdout.readline())
            assert found is not None, "the console did not start"
            threading.Thread(target=_listen, args=(found[0],), daemon=True).start()
            time.sleep(1.0)
            yield process.pid
        finally:
            process.terminate()


def _listen(url: str) -> None:
    with suppress(OSError), urllib.request.urlopen(f"{url}events") as events:
        for line in events:
            if line.startswith(b"event: lake"):
                urllib.request.urlopen(url).read()


def _rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": list(ids), "k": [i % 1000 for i in ids], "x": [i * 7919 % 1000 for i in ids]})


if __name__ == "__main__":
    without, opened = measure(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    print(f"a refresh takes {without:.3f} s, with a console open {opened:.3f} s: {opened / without:.2f} times as long")
