"""Deletion vectors of Delta: the rows of a data file that its table does not have any more, as bitmaps of row numbers.

Deleting a few rows marks them, and leaves the file as it is. A bitmap is a 64-bit Roaring bitmap in the portable form behind a
magic number; a small one stands in the log itself, as text, and others in files beside the data, several in one, each with a
checksum. The protocol (delta-io/delta, PROTOCOL.md, "Deletion Vectors") defines all of it.
"""

from __future__ import annotations

import array
import os
import struct
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from nabla._cached import cached_property
from nabla.errors import MachineFault, NablaError
from nabla.storage import locations
from nabla.storage.machine import point
from nabla.storage.uncommitted import note

FEATURE = "deletionVectors"
"""The feature that readers and writers of a table with deletion vectors must know."""
ENABLED = "delta.enableDeletionVectors"
"""The property of a table that lets writers mark rows."""

_MAGIC = 1681511377
_FORMAT = 1  # of the files
_INLINE, _IN_FILE = "i", "u"
INLINE_BYTES = 4096
"""Bytes of all vectors of a commit that may stand in the log: writing and syncing a file takes longer than reading them."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_UUID_DIGITS = 20


@dataclass(frozen=True)
class Vector:
    """A deletion vector as the actions of a log name it. `text` is the bitmap itself or leads to its file."""

    storage: str
    text: str
    size: int
    rows: int
    offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The descriptor in an action."""
        offset = {} if self.offset is None else {"offset": self.offset}
        named = {"storageType": self.storage, "pathOrInlineDv": self.text}
        return {**named, **offset, "sizeInBytes": self.size, "cardinality": self.rows}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. ValueError for one in a place that this module does not know."""
        text, size, rows = json.get("pathOrInlineDv"), json.get("sizeInBytes"), json.get("cardinality")
        storage, offset = json.get("storageType"), json.get("offset")
        numbers = all(type(n) is int and n >= 0 for n in (size, rows, offset or 0))
        if storage not in (_INLINE, _IN_FILE) or not isinstance(text, str) or not numbers:
            raise ValueError(json)
        vector = cls(storage, text, size, rows, offset)  # type: ignore[arg-type]  # they are numbers
        if storage == _IN_FILE and (len(text) < _UUID_DIGITS or not vector.path):
            raise ValueError(json)
        return vector

    @cached_property
    def path(self) -> str | None:
        """The path of its file, relative to the table's folder; None if it stands in the log."""
        if self.storage == _INLINE:
            return None
        prefix, name = self.text[:-_UUID_DIGITS], self.text[-_UUID_DIGITS:]
        return os.path.join(prefix, f"deletion_vector_{uuid.UUID(bytes=_from_text(name))}.bin")

    def read(self, folder: str) -> BitMap64:
        """The rows that are hidden. NABLA_READ_FAILED where the vector is damaged."""
        if self.path is None:
            return self._checked(_from_text(self.text)[: self.size], folder)
        place = os.path.join(folder, self.path)
        framed = locations.read_range(place, self.offset or 0, self.size + 8)
        (size,), data = struct.unpack(">I", framed[:4].rjust(4)), framed[4:-4]
        if len(framed) != self.size + 8 or size != self.size or framed[-4:] != struct.pack(">I", zlib.crc32(data)):
            raise _damaged(place, "its checksum is wrong")
        return self._checked(data, place)

    def _checked(self, data: bytes, place: str) -> BitMap64:
        try:
            (magic,) = struct.unpack("<I", data[:4])
            bitmap = BitMap64.deserialize(data[4:])
        except (struct.error, ValueError) as error:
            raise _damaged(place, str(error)) from error
        if magic != _MAGIC or len(bitmap) != self.rows:
            raise _damaged(place, f"it has {len(bitmap)} rows instead of {self.rows}")
        return bitmap


@dataclass(frozen=True)
class Hidden:
    """The rows of a data file with `written` rows that its table does not have: those of a stored `vector`, read when they are
    asked for and once only, or those of a bitmap that is not stored."""

    written: int
    vector: Vector | None = None
    bitmap: BitMap64 | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """The number of hidden rows."""
        return self.vector.rows if self.vector is not None else len(self.bitmap or ())

    def marked(self, folder: str) -> BitMap64:
        """The hidden rows of a file of the table in a folder."""
        if self.bitmap is not None:
            return self.bitmap
        assert self.vector is not None
        vector = self.vector
        found: BitMap64 = self._kept("_marked", lambda: self._within(vector.read(folder), folder))
        return found

    def keep(self, folder: str) -> pa.BooleanArray:
        """For each row of the file whether the table has it."""
        return self._kept("_keep", lambda: _mask(self.marked(folder), self.written))

    def _kept(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.__dict__:
            self.__dict__.setdefault(name, make())
        return self.__dict__[name]

    def _within(self, bitmap: BitMap64, folder: str) -> BitMap64:
        if bitmap and bitmap.max() >= self.written:
            raise _damaged(folder, f"a deletion vector hides row {bitmap.max()} of {self.written}")
        return bitmap

    def to_json(self) -> dict[str, Any]:
        """As JSON, for one that is stored."""
        if self.vector is None:  # deltalake has read it
            raise NablaError(
                "NABLA_DELTA_FEATURE",
                "a table whose log only deltalake understands, and that has deletion vectors, cannot be written",
                remedy="Run `nabla fsck --repair`.",
            )
        return {"written": self.written, "vector": self.vector.to_json()}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(json["written"], Vector.from_json(json["vector"]))

    @classmethod
    def masked(cls, keep: pa.BooleanArray) -> Self:
        """The rows for which a mask is false."""
        return cls(len(keep), bitmap=bitmap_of(pc.indices_nonzero(pc.invert(keep))))


def bitmap_of(rows: pa.Array) -> BitMap64:
    """A bitmap of row numbers."""
    numbers = array.array("Q")
    chunks = rows.cast(pa.uint64())
    numbers.frombytes(memoryview(chunks.buffers()[1])[chunks.offset * 8 : (chunks.offset + len(chunks)) * 8])
    return BitMap64(numbers)


def numbers_of(bitmap: BitMap64) -> pa.Array:
    """The row numbers in a bitmap, in order."""
    numbers = pa.py_buffer(bitmap.to_array())
    return pa.Array.from_buffers(pa.uint64(), len(bitmap), [None, numbers]).cast(pa.int64())


def store(folder: str, marks: Sequence[tuple[int, BitMap64]]) -> list[Hidden]:
    """Store the hidden rows of files of a table, given by the number of rows that each file has and those that are hidden.

    Few rows become texts that the log can hold, others a new file in the folder, which belongs to nothing until it is
    committed.
    """
    stored = [struct.pack("<I", _MAGIC) + _serialized(bitmap) for _, bitmap in marks]
    if sum(map(len, stored)) <= INLINE_BYTES:
        texts = (_to_text(data + b"\0" * (-len(data) % 4)) for data in stored)
        vectors = [Vector(_INLINE, text, len(data), 0) for text, data in zip(texts, stored, strict=True)]
    else:
        vectors = _store_in_file(folder, stored)
    return [
        Hidden(written, Vector(vector.storage, vector.text, vector.size, len(bitmap), vector.offset))
        for (written, bitmap), vector in zip(marks, vectors, strict=True)
    ]


def _store_in_file(folder: str, stored: Sequence[bytes]) -> list[Vector]:
    name = uuid.uuid4()
    place = os.path.join(folder, f"deletion_vector_{name}.bin")
    content, vectors = bytearray([_FORMAT]), []
    for data in stored:
        vectors.append(Vector(_IN_FILE, _to_text(name.bytes), len(data), 0, len(content)))
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    note(place)
    point("files.write")
    locations.write_bytes(place, bytes(content))
    point("files.written")
    return vectors


def _serialized(bitmap: BitMap64) -> bytes:
    compact = BitMap64(bitmap)
    compact.run_optimize()
    return bytes(compact.serialize())


def _mask(hidden: BitMap64, written: int) -> pa.BooleanArray:
    """A mask with a bit a row."""
    return pc.invert(pc.is_in(pa.arange(0, written), value_set=numbers_of(hidden)))


def _to_text(data: bytes) -> str:
    """Z85: five digits for four bytes."""
    text = []
    for (value,) in struct.iter_unpack(">I", data):
        digits = ""
        for _ in range(5):
            value, digit = divmod(value, 85)
            digits = _DIGITS[digit] + digits
        text.append(digits)
    return "".join(text)


def _from_text(text: str) -> bytes:
    """The inverse of `_to_text`. ValueError for a text that is no Z85."""
    numbers = []
    for start in range(0, len(text), 5):
        value = 0
        for digit in text[start : start + 5]:
            if digit not in _VALUES:
                raise ValueError(text)
            value = value * 85 + _VALUES[digit]
        numbers.append(value)
    if len(text) % 5 or any(value >= 1 << 32 for value in numbers):
        raise ValueError(text)
    return struct.pack(f">{len(numbers)}I", *numbers)


def _damaged(place: str, why: str) -> MachineFault:
    return MachineFault(
        "NABLA_READ_FAILED",
        f"a deletion vector is damaged: {why}",
        place=place,
        remedy="`nabla fsck` finds all damaged files. Restore this one from a copy.",
    )
