"""Values that are wrong for an argument: of another type, or of the right type and saying what nothing has."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

Values = tuple[Any, ...]


class Thing:
    """An object that no function takes."""

    def __repr__(self) -> str:
        return "Thing()"


NAN = float("nan")
DAY = datetime.date(2026, 1, 2)

NO_TEXT: Values = (
    *(5, -1, 0, 1.5, NAN, True, Decimal(1), 10**30, b"x", [], ["t"], (), ("t",), {}, {"t": "t"}, {"t"}, range(3)),
    *(Thing(), Thing, len, DAY),
)
NO_NAME: Values = (
    *(*NO_TEXT, None, "", " ", "no such", "../x", "a b", "t;", "\x00", "\x1b[31m", "é" * 300, "`t`", "t.id", "'"),
    *("%41", "_nabla/log"),
)
NO_QUERY: Values = (
    *(5, -1, 1.5, NAN, True, Decimal(1), b"x", [], ["t"], ("t",), {}, {"t": "t"}, {"t"}, Thing(), DAY, None),
    *("", " ", "no such", "SELECT", "SELECT * FROM nowhere", "SELECT (", "\x00", "';--", "SELECT nope FROM t"),
    *("SELECT * FROM t; SELECT 1", "SELECT 1 +", "SELECT count(id, FROM t", "SELECT * FROM t WHERE name > (1, 2)"),
)
NO_CONDITION: Values = (
    *(b"x", [], ["t"], ("t",), {}, {"t": "t"}, {"t"}, Thing(), Thing, len, DAY, range(3)),
    *("", " ", "nope = 1", "id = = 1", "(", "id", "id IN (SELECT x FROM nowhere)", "\x00", "sum(id) > 1", "1; 2", 5),
)
NO_RULES: Values = (
    *(*NO_TEXT, None, "", " ", "p(", "p(X) :- nowhere(X).", "p(X) :- not t(X, _).", "t(X) :- t(X, _).", "\x00", "p"),
    *("p(X) :- t(X, _), not p(X).", "p(X) :- t(Y, _).", "p(X) :- t(X).", "p(X) :- t(X, N), N > .", "p(X) :- t(X, _)"),
)
NO_TRUTH: Values = (None, 1, 0, 1.5, "yes", "", b"", [], [True], {}, Thing(), len, NAN, Decimal(1))
NO_NUMBER: Values = (
    *("1", "", 1.5, NAN, True, b"1", [], [1], {}, Thing(), len, Decimal(1), datetime.timedelta(1)),
    *(-1, -(10**30)),
)
NO_MODE: Values = (None, "", "fast", "AUTO", 5, True, [], ["auto"], {}, Thing(), len, b"auto")
NO_FUNCTION: Values = (5, "f", [], {}, Thing(), b"", 1.5, True, ())
NO_SCHEDULE: Values = (
    *(None, 5, 1.5, True, "", "often", "5 parsecs", "-1 minutes", [], {}, Thing(), b"manual", "0 0 * * *"),
    *("0 rows", "-5 rows", "1.5 rows", "rows", "few rows"),
)
NO_SCHEMA: Values = (
    *(5, 1.5, True, b"x", [], ["id INT"], {}, {"id": "INT"}, Thing(), len, (), DAY, "", " ", "id", "INT", "id INT,"),
    *("id NOTATYPE", "id INT, ID INT", "id INT DEFAULT 5", "id INT PRIMARY KEY", "a STRING COLLATE UTF8_LCASE", "\x00"),
    *("id INTERVAL DAY", "id INT COMMENT 'x'", "a VARIANT", "m MAP<STRING, TIMESTAMP_NTZ>", "_version INT"),
)
NO_KEY: Values = (
    *(5, 1.5, True, b"id", Thing(), len, {}, {"id": 1}, [5], [None], ["id", 5], "nope", "", ["nope"], [["id"]]),
)
NO_FOREIGN_KEYS: Values = (
    *(5, "id", [], ["id"], Thing(), {5: "t.id"}, {"id": 5}, {"id": None}, {"nope": "t.id"}, {"id": "t"}),
    *({"id": "x.id"}, {"id": ""}),
)
NO_ROWS: Values = (
    *(5, "text", b"x", {}, {"id": 1}, Thing(), Thing, len, True, 1.5, NAN, [5], ["x"], [None], [()], [(1,)], [{}]),
    *([{"no": 1}], [{5: 1}], [Thing()], [[1, 2, 3]], pa.table({"no": [1]}), pa.array([1]), [(1, 2), (1,)]),
)
NO_SET: Values = (
    *(None, 5, "name", [], {}, Thing(), {"nope": "1"}, {5: "1"}, {None: "1"}, {"name": None}, {"name": []}),
    *({"name": b"x"}, {"id": "'a'"}, {"id": "1.5D"}, {"id": "nope"}, {"id": "("}, {"id": ""}, {"id": "sum(id)"}),
    *({"id": "10000000000L"}, {"id": "(SELECT id FROM t)"}, {"id": "(SELECT 1 FROM nowhere)"}, {"id": DAY}),
)
NO_SHAPE: Values = (
    *(5, None, Thing(), "nope", {"nope": ["p"]}, {"parts": ["nope"]}, {"parts": 5}, {5: ["p"]}, b"x", True),
)
NO_SELECTION: Values = (
    *(5, None, "p = 1", [], {"where": 5}, {"where": "nope = 1"}, {"is": "odd"}, {"is": 5}, {"nope": {}}, Thing()),
    *({"where": "("}, {5: "x"}),
)

BY_TYPE: Mapping[str, Values] = {
    "INT": (1.5, NAN, Decimal("1.7"), "1", True, 2**31, b"1", [1], {}, Thing(), DAY),
    "BIGINT": (1.5, Decimal("1.7"), "1", False, 2**63, 1e300, float("inf"), Decimal("NaN"), (1,), Thing()),
    "FLOAT": ("1", True, 1e300, b"1", [1.0], Decimal("1e39"), 10**400, Thing()),
    "DOUBLE": ("1", True, 10**400, Decimal("1e400"), Decimal("Infinity"), [], Thing()),
    "DECIMAL(4,1)": ("1", True, 1000, 999.95, NAN, Decimal("1e9"), Decimal("1e999999"), [1], Thing()),
    "STRING": ([1], {}, {"a": 1}, Thing(), b"\xff", "\ud800", len, {1}),
    "VARCHAR(3)": ("abcd", 12345, [1], Thing(), True),
    "BOOLEAN": (1, 0, "true", 1.0, [], Thing()),
    "BINARY": ("a", 5, [1], Thing(), True, 1.5),
    "DATE": (5, "2026-01-02", 1.5, datetime.datetime(2026, 1, 2, 3), True, datetime.time(1), Thing()),
    "TIMESTAMP": (5, "2026-01-02", 1.5, True, datetime.time(1), datetime.timedelta(1), Thing()),
    "TIMESTAMP_NTZ": (5, "2026-01-02", 1.5, True, datetime.timedelta(1), Thing()),
    "ARRAY<INT>": (5, "a", {}, [1.5], ["a"], [None, "x"], {1}, Thing()),
    "MAP<STRING,INT>": (5, "a", [1], {"a": 1.5}, {None: 1}, {"a": "b"}, [("a", 1), ("a", 2)], Thing()),
    "STRUCT<a:INT,b:STRING>": (5, "a", {}, {"a": 1}, {"a": 1, "c": "x"}, {"a": 1, "b": "x", "c": 2}, (1,), Thing()),
    "INT NOT NULL": (None, 1.5, "x", Thing()),
}
"""Values that a column of a type cannot take."""

ANSWERING: dict[str, Values] = {
    "views": (None, 5, "", "always", True, [], {}, Thing()),
    "fresh_within": (5, "", "soon", "five minutes", True, [], {}, Thing()),
}
"""Values that `lake.sql` and `lake.answer` must refuse."""
SPANS: Values = (None, 5, "7 days", True, [], {}, Thing(), datetime.timedelta(days=-1))
"""No times to look back."""
NO_SIZE: Values = ("", "x", "2 XB", -1, 1.5, True, [], {})
"""Values that are no size of a store."""
