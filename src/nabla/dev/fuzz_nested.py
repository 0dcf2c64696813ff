"""Random nested relations, updates and views, in numbers: `python -m nabla.dev.fuzz_nested --cases 20000 --spark 300`.

A case in the interpreter is a random schema of three levels with relations and updates on which all equations are tried,
and a random view whose plan must give what the operators give, before and after, recomputed and maintained. On Spark a
case is a view of a lake after a round of `merge` and `remove`, refreshed from the change.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from random import Random
from typing import TYPE_CHECKING

from nabla.dev.testing import nested_laws
from nabla.dev.testing import random_nested as nests
from nabla.frontends.nested import equations, meaning, model
from nabla.frontends.nested.language import Nested
from nabla.frontends.nested.meaning import NestedSource

if TYPE_CHECKING:
    from nabla.lake.facade import Lake

STATES = 10
"""Databases for each view: to read an expression takes longer than to evaluate it."""
VIEWS, ROUNDS = 6, 5


def in_interpreter(cases: int, seed: int) -> None:
    """Check cases. Raises AssertionError with the name of the first case that fails."""
    for block in range(0, cases, STATES):
        expression, sources = nests.random_view(Random(f"{seed} {block}"))
        for number in range(block, min(block + STATES, cases)):
            rng = Random(f"{seed} {block} {number}")
            try:
                nests.check_equations(rng, sources["r"].schema)
                nested_laws.check_level_equations(rng, sources["r"].schema)
                nested_laws.check_counts(rng, sources["r"].schema)
                nests.check_update(rng, sources["r"].schema)
                nests.check_expression(nests.random_states(rng, expression, sources))
            except Exception as error:
                raise AssertionError(f"case {number} of seed {seed}: {expression} over {sources}") from error


def on_spark(cases: int, seed: int) -> None:
    """The same through the public API, on lakes in a temporary folder."""
    import nabla

    done = 0
    for lake_number in range(cases):
        if done >= cases:
            break
        with tempfile.TemporaryDirectory() as folder:
            lake = nabla.open(folder)
            done += _lake_cases(lake, Random(f"{seed} lake {lake_number}"), cases - done)


def _lake_cases(lake: Lake, rng: Random, most: int) -> int:
    sources = nests.random_sources(rng)
    state = {name: nests.random_relation(rng, source.schema) for name, source in sources.items()}
    for name, source in sources.items():
        columns = ", ".join(f"{attribute} {kind}" for attribute, kind in source.schema.types.items())
        lake.create_nested(name, columns, model.dicts(state[name], source.schema))
    views = {f"v{i}": nests.random_expression(rng, sources, rng.randint(1, 3)) for i in range(VIEWS)}
    for name, view in views.items():
        lake.create_view(name, view)
    done = 0
    while done < min(most, VIEWS * ROUNDS):
        _change(lake, rng, sources, state)
        report = lake.refresh(mode="strict")
        for name, view in list(views.items())[: most - done]:
            assert report[name].mode in ("incremental", "skip"), report[name]
            _compare(lake, name, view, sources, state)
            done += 1
    return done


def _change(lake: Lake, rng: Random, sources: dict[str, NestedSource], state: dict[str, model.Relation]) -> None:
    with lake.transaction() as tx:
        for name, source in sources.items():
            for _ in range(rng.randint(0, 2)):
                d = nests.random_update(rng, state[name], source.schema)
                sign: equations.Sign = rng.choice(("⊕", "⊖"))
                rows = model.dicts(d, source.schema)
                if sign == "⊕":
                    tx.merge(name, rows)
                else:
                    tx.remove(name, rows)
                state[name] = equations.UPDATES[sign](state[name], d)


def _compare(
    lake: Lake, name: str, view: Nested, sources: dict[str, NestedSource], state: dict[str, model.Relation]
) -> None:
    schema = meaning.schema_of(view, sources)
    found = lake.read(name).toArrow().to_pylist()
    expected = model.dicts(meaning.evaluate(view, sources, state), schema)
    in_order = model.dicts(model.relation(found, schema), schema)
    assert in_order == expected, f"{view}: {in_order} instead of {expected}"
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), f"{view}: not in canonical order: {found}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m nabla.dev.fuzz_nested", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cases", type=int, default=20_000, help="cases in the interpreter")
    parser.add_argument("--spark", type=int, default=0, help="cases on Spark")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same cases")
    wanted = parser.parse_args()
    for run, cases, where in (
        (in_interpreter, wanted.cases, "in the interpreter"),
        (on_spark, wanted.spark, "on Spark"),
    ):
        if cases:
            begun = time.perf_counter()
            run(cases, wanted.seed)
            sys.stdout.write(f"{cases} cases {where}: all right, {time.perf_counter() - begun:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
