"""`nabla init`: a small project that runs as it is."""

from __future__ import annotations

import csv
import datetime
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from nabla.errors import NablaError

TEMPLATE = Path(__file__).with_name("template")
REGIONS = ("north", "east", "south", "west")
CUSTOMERS = 40
ORDERS = 500


def create_project(folder: Path) -> list[Path]:
    """Write the project into a folder that is new or empty; the files, relative to it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NablaError(
            "NABLA_FOLDER_EXISTS", "the folder is not empty", place=str(folder), remedy="Choose another name."
        )
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        relative = source.relative_to(TEMPLATE)
        target = folder / relative.with_name(".gitignore" if relative.name == "gitignore" else relative.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        text = text.replace("{{name}}", folder.resolve().name).replace("{{folder}}", folder.resolve().as_posix())
        target.write_text(text, encoding="utf-8")
    _write_data(folder / "data")
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _write_data(folder: Path) -> None:
    """Write the sample data: the same customers and orders every time."""
    chance = random.Random(2026)
    folder.mkdir()
    customers = ((i, f"Customer {i}", REGIONS[i % len(REGIONS)]) for i in range(1, CUSTOMERS + 1))
    first = datetime.date(2026, 1, 1)
    orders = (
        (
            i,
            chance.randint(1, CUSTOMERS),
            f"{chance.randint(100, 100_000) / 100:.2f}",
            (first + datetime.timedelta(days=chance.randrange(59))).isoformat(),
        )
        for i in range(1, ORDERS + 1)
    )
    _write_csv(folder / "customers.csv", ("id", "name", "region"), customers)
    _write_csv(folder / "orders.csv", ("id", "customer", "amount", "day"), orders)


def _write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)
