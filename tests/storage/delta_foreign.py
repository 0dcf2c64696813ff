"""Delta tables as other writers leave them, made by hand where `deltalake` cannot make them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def commit_file(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020d}.json"


def actions(folder: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in commit_file(folder, version).read_text().splitlines()]


def write_actions(folder: Path, version: int, lines: Iterable[dict[str, Any]]) -> None:
    commit_file(folder, version).write_text("\n".join(map(json.dumps, lines)))


def allow(folder: Path, features: list[str], configuration: dict[str, str]) -> None:
    """Give the version 0 of a table protocol features and settings."""
    lines = actions(folder, 0)
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        if "metaData" in line:
            line["metaData"]["configuration"] |= configuration
    write_actions(folder, 0, lines)


def rename(folder: Path, mode: str) -> None:
    """Show every column under another name than its files have."""
    allow(folder, ["columnMapping"], {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "10"})
    lines = actions(folder, 0)
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            for i, field in enumerate(schema["fields"]):
                stored = {"delta.columnMapping.id": i + 1, "delta.columnMapping.physicalName": field["name"]}
                field |= {"name": f"my {field['name']}", "metadata": stored}
            line["metaData"]["schemaString"] = json.dumps(schema)
    write_actions(folder, 0, lines)


def delete_by_vector(folder: Path, version: int, path: str, rows: list[int], before: list[int]) -> None:
    """Commit a version that hides rows of a file; `before` are those hidden already."""
    added = (line["add"] for v in range(version) for line in actions(folder, v) if "add" in line)
    add = next(body for body in added if body["path"] == path)
    old = {"deletionVector": _vector(before)} if before else {}
    removed = {"path": path, "dataChange": True, "deletionTimestamp": 1, **old}
    hidden = {**add, "deletionVector": _vector(rows)}
    write_actions(folder, version, [{"commitInfo": {"operation": "DELETE"}}, {"remove": removed}, {"add": hidden}])


def store_vector(folder: Path, version: int, action: str, file: str) -> None:
    """Move the deletion vector of an action of a commit to a file of its own."""
    lines = actions(folder, version)
    for line in lines:
        if action in line:
            inline = line[action]["deletionVector"]
            text = inline["pathOrInlineDv"]
            groups = (text[i : i + 5] for i in range(0, len(text), 5))
            padded = b"".join(_four_bytes(group) for group in groups)
            bitmap = padded[: inline["sizeInBytes"]]
            framed = struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
            (folder / file).write_bytes(b"\1" + framed)
            inline |= {"storageType": "p", "pathOrInlineDv": (folder / file).as_uri(), "offset": 1}
    write_actions(folder, version, lines)


def _four_bytes(text: str) -> bytes:
    value = 0
    for digit in text:
        value = value * 85 + _DIGITS.index(digit)
    return value.to_bytes(4, "big")


def _vector(rows: list[int]) -> dict[str, Any]:
    bitmap = _roaring(rows)
    padded = bitmap + b"\0" * (-len(bitmap) % 4)
    text = "".join(_base85(padded[i : i + 4]) for i in range(0, len(padded), 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bitmap), "cardinality": len(rows)}


def _roaring(rows: list[int]) -> bytes:
    """One array container of a 64-bit roaring bitmap, in the portable format."""
    head = struct.pack("<IQI", 1681511377, 1, 0) + struct.pack("<II", 12346, 1)
    return head + struct.pack("<HHI", 0, len(rows) - 1, 16) + b"".join(struct.pack("<H", row) for row in sorted(rows))


def _base85(four: bytes) -> str:
    value, text = int.from_bytes(four, "big"), ""
    for _ in range(5):
        value, digit = divmod(value, 85)
        text = _DIGITS[digit] + text
    return text
