"""Wrong calls of everything that is public: each must raise a NablaError with a code, and leave the lake as it was.

A `Call` is a function with arguments that are right. For each argument there are values that are wrong; a trial replaces one
argument by one of them. `python -m nabla.dev.testing.bad_calls` makes them all.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import nabla
from nabla import constraints
from nabla.dev.testing import bad_values as bad
from nabla.dev.testing.bad_alterations import alterations
from nabla.dev.testing.bad_values import Thing
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.watch import Watch

QUESTIONS = ("", "named", "named(", "nowhere(X)", "named(X, Y, Z)", "named(1 + 1)", "\x00")
"""Texts that are no question about rules."""


@dataclass(frozen=True)
class Call:
    """A public function with arguments that are right, and for some of them values that are wrong. An argument whose name
    begins with `*` is passed by position."""

    name: str
    function: Callable[..., Any]
    right: Mapping[str, Any]
    wrong: Mapping[str, Sequence[Any]]

    def trials(self) -> Iterator[Trial]:
        for argument, values in self.wrong.items():
            for value in values:
                yield Trial(self, argument, value)


@dataclass(frozen=True)
class Trial:
    """One call with one argument that is wrong."""

    call: Call
    argument: str
    value: Any

    def run(self) -> Any:
        arguments = {**self.call.right, self.argument: self.value}
        positional = [value for name, value in arguments.items() if name.startswith("*")]
        return self.call.function(*positional, **{n: v for n, v in arguments.items() if not n.startswith("*")})

    def __str__(self) -> str:
        return f"{self.call.name}({self.argument.lstrip('*')}={repr(self.value)[:60]})"


@dataclass
class Found:
    """The outcome of all trials: how many raised which code, and those that did something else."""

    codes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def make_lake(folder: Path, spark: SparkSession) -> Lake:
    """A lake with one object of every kind."""
    lake = nabla.open(folder, spark=spark)
    lake.create_table("t", "id INT, name STRING", data=[(1, "a"), (2, "b")], key="id")
    for number, kind in enumerate(bad.BY_TYPE):
        lake.create_table(f"typed{number}", f"id INT, x {kind}")
    lake.create_nested("n", "k STRING, parts ARRAY<STRUCT<p: INT>>", data=[("x", [(1,)])])
    lake.create_view("v", "SELECT name, COUNT(*) AS n FROM t GROUP BY name")
    lake.create_rules("r", "named(X) :- t(X, N), N = 'a'.")
    lake.create_constraint("c", "SELECT * FROM t WHERE id < 0")
    return lake


def calls(lake: Lake, elsewhere: str) -> list[Call]:
    """Everything that is public; `elsewhere` is a folder without a Delta table."""
    return [
        *_tables(lake, elsewhere),
        *_views(lake),
        *_rules_and_constraints(lake),
        *_readers(lake),
        *_changes(lake),
        *_nested(lake),
        *_beside(lake),
        *(Call(*one) for one in alterations(lake)),
    ]


def _tables(lake: Lake, elsewhere: str) -> list[Call]:
    taken = (*bad.NO_NAME, "t", "T", "v", "c")
    new = {"name": "new", "schema": "id INT, name STRING"}
    nested = {"name": "new", "schema": "k STRING, p ARRAY<STRUCT<a: INT>>"}
    own = (lake.path, f"{lake.path}/_nabla/log", f"{lake.path}/tables", f"{lake.path}/_nabla")
    wrong_table = {
        "name": taken,
        "schema": (*bad.NO_SCHEMA, None),
        "data": bad.NO_ROWS,
        "key": bad.NO_KEY,
        "foreign_keys": bad.NO_FOREIGN_KEYS,
        "enforce": (None, 5, 1.5, "no", "", [], {}, Thing(), b"warn"),
    }
    unkept = (*bad.NO_SCHEMA, None, "k STRING NOT NULL", "k STRING, p ARRAY<INT NOT NULL>")
    wrong_nested = {"name": taken, "schema": unkept, "data": bad.NO_ROWS}
    paths = (*bad.NO_TEXT, None, "", "\x00", elsewhere, "foo://x", *own)
    opened = {
        "path": (*bad.NO_TEXT, None, "", "\x00", "foo://x", *own[1:]),
        "spark": (5, "local", Thing(), [], True),
    }
    return [
        Call("create_table", lake.create_table, new, wrong_table),
        Call("create_nested", lake.create_nested, nested, wrong_nested),
        Call("register", lake.register, {"name": "new", "path": elsewhere}, {"name": taken, "path": paths}),
        Call("drop_table", lake.drop_table, {}, {"name": (*bad.NO_NAME, "t", "v", "c", "r")}),
        Call("open", nabla.open, {"path": lake.path}, opened),
    ]


def _views(lake: Lake) -> list[Call]:
    missing = (*bad.NO_NAME, "t")
    wrong = {
        "name": (*bad.NO_NAME, "t", "v", "V", "c"),
        "query": (*bad.NO_QUERY, "DROP TABLE t", Thing, len),
        "rebuild": bad.NO_TRUTH,
        "maintain": (*bad.NO_SCHEDULE, {"nowhere": "immediate"}, {"t": "manual"}, {"t": 5}, {5: "immediate"}),
        "detached": bad.NO_TRUTH,
        "propagate": (5, True, "", "behind", "AHEAD", [], {}, Thing(), b"ahead"),
        "over": (5, True, "", "tables", "VIEWS", [], {}, Thing(), b"views"),
        "follow": bad.NO_TRUTH,
    }
    wrong_views = {
        "queries": (
            *({name: "SELECT * FROM t"} for name in wrong["name"] if isinstance(name, Hashable)),
            *({"fine": "SELECT * FROM t", "new": query} for query in wrong["query"]),
            *(value for value in bad.NO_TEXT if value != {}),
            "SELECT * FROM t",
        ),
        "maintain": bad.NO_SCHEDULE,
    }
    decorated = {"function": bad.NO_FUNCTION, "rebuild": bad.NO_TRUTH, "maintain": bad.NO_SCHEDULE[1:4]}
    no_column = (*(name for name in bad.NO_NAME if name != "t.id"), "t.", "t.x", ".id", "v.id.x")
    listening = {"view": bad.NO_NAME, "callback": (None, *bad.NO_FUNCTION), "since": bad.NO_NUMBER}
    return [
        Call("create_view", lake.create_view, {"name": "new", "query": "SELECT * FROM t"}, wrong),
        Call("create_views", lake.create_views, {"queries": {"new": "SELECT * FROM t"}}, wrong_views),
        Call("view", lake.view, {}, decorated),
        Call("drop_view", lake.drop_view, {}, {"name": (*missing, "named", "c")}),
        Call("refresh", lake.refresh, {}, {"*name": missing, "mode": bad.NO_MODE, "progress": bad.NO_FUNCTION}),
        Call("propagate", lake.propagate, {}, {"*name": (*missing, "v")}),
        Call("on_change", lake.on_change, {"view": "v", "callback": print}, listening),
        Call("observe", lake.observe, {}, {"observer": (None, *bad.NO_FUNCTION)}),
        Call("verify", lake.verify, {}, {"*name": missing}),
        Call("lineage", lake.lineage, {"name": "v"}, {"name": no_column, "through": bad.NO_TRUTH}),
        Call("impact", lake.impact, {}, {"name": no_column}),
        Call("self_maintenance", lake.self_maintenance, {}, {"*name": missing}),
        Call(
            "advise",
            lake.advise,
            {},
            {
                "workload": (5, "SELECT 1", [5], [("SELECT 1", -1)], [None]),
                "space": bad.NO_SIZE,
                "upkeep": ("x", [], {}),
            },
        ),
        Call("create_advised", lake.create_advised, {}, {"proposal": (None, 5, "v", [], {})}),
        Call("maintenance_limit", lake.maintenance_limit, {"view": "v"}, {"view": missing, "measure": bad.NO_TRUTH}),
        Call("explain", lake.explain, {"name": "v"}, {"name": missing, "mode": bad.NO_MODE}),
    ]


def _rules_and_constraints(lake: Lake) -> list[Call]:
    missing = (*bad.NO_NAME, "t")
    constraint = {"name": "new", "query": "SELECT * FROM t WHERE id > 100", "on_violation": "reject"}
    wrong_constraint = {
        "name": (*bad.NO_NAME, "t", "v", "c"),
        "query": (*bad.NO_QUERY, "DROP TABLE t", "SELECT * FROM t", "SELECT rand() AS x FROM t"),
        "on_violation": (None, 5, "", "ignore", True, [], {}, Thing(), b"warn"),
    }
    wrong_rules = {
        "name": (*bad.NO_TEXT, None, "", " ", "../x", "/x", "\x00", "\x1b", "r", "a/b", "`"),
        "text": bad.NO_RULES,
        "rebuild": bad.NO_TRUTH,
        "maintain": (None, 5, "", "sometimes", "-1 minutes", True, [], {}, Thing()),
    }
    wrong_denial = {"rules": (*bad.NO_RULES, ":-", ":- .", ":- t(X, X), not", "p(X) :- t(X, N).", ":- p(X). :- p(Y).")}
    return [
        Call("create_constraint", lake.create_constraint, constraint, wrong_constraint),
        Call(
            "create_constraint rules", lake.create_constraint, {"name": "new", "rules": ":- t(100, N)."}, wrong_denial
        ),
        Call("drop_constraint", lake.drop_constraint, {}, {"name": (*missing, "v")}),
        Call("check", lake.check, {}, {"*name": (*missing, "v")}),
        Call("create_rules", lake.create_rules, {"name": "new", "text": "p(X) :- t(X, N)."}, wrong_rules),
        Call("drop_rules", lake.drop_rules, {}, {"name": (*missing, "v", "named")}),
        Call("delta_rules", lake.delta_rules, {}, {"name": (*missing, "v")}),
        Call("ask", lake.ask, {}, {"question": (*bad.NO_TEXT, None, *QUESTIONS)}),
    ]


def _readers(lake: Lake) -> list[Call]:
    versions = {"name": bad.NO_NAME, "version": (*bad.NO_NUMBER, 99), "fresh": bad.NO_TRUTH}
    named = tuple(value for value in bad.NO_NAME if value is not None)
    feed = {"name": bad.NO_NAME, "since": (None, *bad.NO_NUMBER), "pairs": bad.NO_TRUTH}
    return [
        Call("read", lake.read, {"name": "t"}, versions),
        Call("changes", lake.changes, {"name": "v"}, feed),
        Call("sql", lake.sql, {"text": "SELECT * FROM t"}, {"text": (*bad.NO_QUERY, Thing, len), **bad.ANSWERING}),
        Call("answer", lake.answer, {"query": "SELECT * FROM t"}, {"query": (*bad.NO_QUERY, Thing), **bad.ANSWERING}),
        Call("accelerate", lake.accelerate, {}, {"spark": (5, "local", Thing(), []), "on": bad.NO_TRUTH}),
        Call("unnest", lake.unnest, {}, {"name": bad.NO_NAME}),
        Call("history", lake.history, {}, {"name": named, "limit": bad.NO_NUMBER}),
        Call("revert", lake.revert, {}, {"version": (None, *bad.NO_NUMBER, 10**6)}),
        Call("vacuum", lake.vacuum, {"dry_run": True}, {"dry_run": bad.NO_TRUTH, "older_than": bad.SPANS}),
        Call("optimize", lake.optimize, {}, {"*name": named}),
        Call(
            "housekeeping",
            lake.housekeeping,
            {},
            {"automatic": bad.NO_TRUTH[1:], "history": bad.SPANS[1:], "feeds": bad.SPANS[1:]},
        ),
        Call("fsck", lake.fsck, {"quick": True}, {"quick": bad.NO_TRUTH, "repair": bad.NO_TRUTH}),
        Call("preview", lake.preview, {}, {"transaction": (None, 5, "tx", [], {}, Thing(), lake, True, len)}),
        Call("status()[]", lambda name: lake.status()[name], {}, {"name": bad.NO_NAME}),
    ]


def _changes(lake: Lake) -> list[Call]:
    def inside(method: str) -> Callable[..., None]:
        def call(**arguments: Any) -> None:
            with lake.transaction() as tx:
                getattr(tx, method)(**arguments)

        return call

    tables = (*bad.NO_NAME, "v", "c", "named")
    rows = (None, *bad.NO_ROWS)
    gone = (*rows, [(7, "z")], [(1, "a")] * 2)
    part = {"table": "n", "rows": [("x", [(2,)])]}
    change = {"table": "t", "set": {"name": "'z'"}}
    wrong_change = {"table": tables, "set": bad.NO_SET, "where": bad.NO_CONDITION}
    searching, deleting = {"where": bad.NO_CONDITION}, {"delete_when": bad.NO_CONDITION}
    ended = ("insert", "delete", "update", "merge", "remove", "read", "commit")
    found = [
        Call("tx.insert", inside("insert"), {"table": "t", "rows": []}, {"table": tables, "rows": rows}),
        Call("tx.delete", inside("delete"), {"table": "t"}, {"where": (None, *bad.NO_CONDITION)}),
        Call("tx.delete rows", inside("delete"), {"table": "t", "rows": []}, {"table": tables, "rows": gone}),
        Call("tx.update", inside("update"), change, wrong_change),
        Call(
            "tx.upsert",
            inside("upsert"),
            {"table": "t", "rows": [(1, "z")]},
            {"table": tables, "rows": rows, **deleting},
        ),
        Call("tx.replace", inside("replace"), {"table": "t", "rows": []}, {"table": tables, "rows": rows, **searching}),
        Call("tx.merge", inside("merge"), part, {"table": (*tables, "t"), "rows": rows}),
        Call("tx.remove", inside("remove"), part, {"table": (*tables, "t"), "rows": rows}),
        Call("tx.read", inside("read"), {"name": "v"}, {"name": bad.NO_NAME, "fresh": bad.NO_TRUTH}),
        Call("tx.sql", inside("sql"), {}, {"text": (*bad.NO_QUERY, Thing, len)}),
        Call("tx.ask", inside("ask"), {}, {"question": (*bad.NO_TEXT, None, *QUESTIONS)}),
        Call("an ended transaction", _ended(lake), {}, {"method": ended}),
    ]
    for number, (kind, values) in enumerate(bad.BY_TYPE.items()):
        alone = [[(1, value)] for value in values] + [[{"id": 1, "x": value}] for value in values]
        later = [[(1, None), (2, value)] for value in values if "NOT NULL" not in kind]
        right = {"table": f"typed{number}"}
        found.append(Call(f"tx.insert into {kind}", inside("insert"), right, {"rows": (*alone, *later)}))
    return found


def _ended(lake: Lake) -> Callable[[str], object]:
    arguments: dict[str, tuple[Any, ...]] = {
        "insert": ("t", [(3, "c")]),
        "delete": ("t", "true"),
        "update": ("t", {"name": "'x'"}),
        "merge": ("n", []),
        "remove": ("n", []),
        "read": ("t",),
        "commit": (),
    }

    def call(method: str) -> object:
        with lake.transaction() as tx:
            pass
        return getattr(tx, method)(*arguments[method])

    return call


def _nested(lake: Lake) -> list[Call]:
    """Nested expressions, which are checked when a view is made of them."""
    whole = nabla.nested("n")

    def view(make: Callable[..., Any]) -> Callable[..., object]:
        return lambda *values, **arguments: lake.create_view("new", make(*values, **arguments))

    wheres = (*bad.NO_TEXT, "nope = 1", "k = = 1", "parts = 1", "(", "rand() > 1", "", "k IN (SELECT 1)")
    no_level = (5, "nope", "k", "parts.p", "", ["parts", 5], {"parts": 1}, Thing())
    return [
        Call("nested", view(nabla.nested), {}, {"table": bad.NO_NAME}),
        Call(
            "nest", view(nabla.nest), {"*table": "t", "*column": "id"}, {"*table": bad.NO_NAME, "*column": bad.NO_SHAPE}
        ),
        Call(
            "select",
            view(whole.select),
            {},
            {"where": wheres, "parts": bad.NO_SELECTION, "nope": ({"where": "p = 1"},)},
        ),
        Call("project", view(whole.project), {}, {"*attribute": bad.NO_SHAPE}),
        Call("expand", view(whole.expand), {}, {"schema": (*bad.NO_SCHEMA, None)}),
        *[
            Call(f"nested {method}", view(getattr(whole, method)), {}, {"other": (*bad.NO_NAME, "t")})
            for method in ("union", "difference", "intersect", "join")
        ],
        *[
            Call(f"nested {method} at a level", view(getattr(whole, method)), {"other": "n"}, {"at": no_level})
            for method in ("union", "difference", "intersect", "join")
        ],
        Call("select at a level", view(whole.select), {"where": "p = 1"}, {"at": no_level}),
        Call("project at a level", view(whole.project), {}, {"at": no_level}),
        Call("expand at a level", view(whole.expand), {"schema": "p INT"}, {"at": no_level}),
        Call(
            "join on",
            view(whole.join),
            {"other": "n"},
            {"on": (5, "parts", ["parts"], {"nope": "parts"}, {"parts": 5})},
        ),
    ]


def _beside(lake: Lake) -> list[Call]:
    """Queries of constraints, which are texts and know no lake, and watches."""
    no_text = (*bad.NO_TEXT, None)
    sizes = {"one": "t", "other": "v"}
    foreign = {"table": "t", "column": "id", "target": "t.id"}
    watching = {
        "lake": (None, 5, "lake", Thing()),
        "views": (None, 5, "v", [5], [None], Thing()),
        "mode": bad.NO_MODE,
        "interval": (None, "1", -1, True, bad.NAN, [], Thing()),
        "refreshed": bad.NO_FUNCTION,
        "failed": bad.NO_FUNCTION,
    }
    key = {"*table": no_text, "*column": no_text}
    return [
        Call("constraints.key", constraints.key, {"*table": "t", "*column": "id"}, key),
        Call("constraints.foreign_key", constraints.foreign_key, foreign, dict.fromkeys(foreign, no_text)),
        Call("constraints.same_size", constraints.same_size, sizes, dict.fromkeys(sizes, no_text)),
        Call("Watch", Watch, {"lake": lake}, watching),
    ]


def state_of(lake: Lake) -> tuple[int, dict[str, int]]:
    """The version of a lake, and its files with their sizes."""
    found: dict[str, int] = {}
    for folder, _, names in os.walk(lake.path):
        found |= {os.path.join(folder, name): os.path.getsize(os.path.join(folder, name)) for name in names}
    return lake.version, found


def try_all(lake: Lake, trials: Sequence[Trial]) -> Found:
    """Make the calls, and look at the lake after each of them."""
    found, before = Found(), state_of(lake)
    for trial in trials:
        try:
            trial.run()
            found.failures.append(f"{trial} was accepted")
        except NablaError as error:
            found.codes[error.code] += 1
            if not error.code.startswith("NABLA_"):
                found.failures.append(f"{trial} has the code {error.code}")
        except Exception as error:
            found.failures.append(f"{trial} raised {type(error).__name__}: {' '.join(str(error).split())[:160]}")
        after = state_of(lake)
        if after != before:
            changed = sorted(set(before[1].items()) ^ set(after[1].items()))
            found.failures.append(f"{trial} changed the lake: version {before[0]} → {after[0]}, {changed[:3]}")
            before = after
    return found


def all_trials(lake: Lake, elsewhere: str, only: str = "") -> list[Trial]:
    """The trials of all calls whose names have `only` in them."""
    return [trial for call in calls(lake, elsewhere) if only in call.name for trial in call.trials()]


def main(arguments: Sequence[str] | None = None) -> int:
    from nabla.dev.testing.session import quick_session

    parser = argparse.ArgumentParser(prog="python -m nabla.dev.testing.bad_calls", description=__doc__)
    parser.add_argument("--only", default="", help="calls whose names contain this")
    parser.add_argument("--sample", type=int, help="so many of them, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        lake = make_lake(Path(folder, "lake"), quick_session("bad-calls", {"spark.master": "local[1]"}))
        trials = all_trials(lake, folder, options.only)
        if options.sample is not None:
            trials = random.Random(options.seed).sample(trials, min(options.sample, len(trials)))
        found = try_all(lake, trials)
    for failure in found.failures:
        print(failure)  # noqa: T201
    print(f"{len(trials)} calls, {len(found.failures)} failures; {dict(found.codes.most_common())}")  # noqa: T201
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
