"""Wrong calls of what changes schemas and definitions, and of publishing: name, function, right and wrong arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nabla.dev.testing import bad_values as bad
from nabla.dev.testing.bad_values import Thing, Values
from nabla.lake.facade import Lake

_NO_MAPPING: Values = (5, "id", b"x", [], ["id"], Thing(), True, 1.5, {5: "x"}, {"nope": "x"})


def alterations(
    lake: Lake,
) -> list[tuple[str, Callable[..., Any], Mapping[str, Any], Mapping[str, Values]]]:
    """The calls, with the values that they must refuse."""
    columns = {
        "name": (*bad.NO_NAME, "v", "c", "n", "nowhere"),
        "add": tuple(value for value in bad.NO_SCHEMA if value not in ({"id": "INT"},)),
        "drop": (*bad.NO_KEY, "id", ["id", "name"], []),
        "rename": (*_NO_MAPPING, {}, {"id": 5}, {"id": None}, {"id": "name"}, {"id": "NAME"}, {"id": ""}, {"id": "_n"}),
        "widen": (*_NO_MAPPING, {}, {"id": 5}, {"id": "SMALLINT"}, {"id": "x"}, {"id": ""}, {"id": "BIGINT, y INT"}),
        "default": (*_NO_MAPPING, {"id": 1}),
    }
    query = {
        "name": (*bad.NO_NAME, "t", "c", "named"),
        "query": (*bad.NO_QUERY, "DROP TABLE t", "SELECT * FROM v", Thing),
    }
    name = {"name": (*bad.NO_NAME, "c"), "comments": (5, "id", [], {"nope": "x"}, {5: "x"}, {"id": 5}, Thing())}
    table = (
        *bad.NO_TEXT,
        None,
        "",
        " ",
        "a b",
        "a..b",
        "a.b.c.d",
        "nowhere.x",
        "nowhere.db.x",
        "\x00",
        "t;",
        "`",
        "é ",
    )
    return [
        ("alter_table", lake.alter_table, {"name": "t"}, columns),
        ("alter_view", lake.alter_view, {"name": "v", "query": "SELECT * FROM t"}, query),
        ("publish", lake.publish, {"name": "t", "table": "default.t"}, name | {"table": table}),
        (
            "unpublish",
            lake.unpublish,
            {"name": "t"},
            {"name": (*bad.NO_NAME, "t", "v"), "table": (*bad.NO_TEXT, "a b")},
        ),
    ]
