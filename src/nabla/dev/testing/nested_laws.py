"""Laws of nested relations below the top level, and of counts beside projections, on random relations and updates."""

from __future__ import annotations

from random import Random

from nabla.dev.testing.random_nested import (
    random_partner,
    random_relation,
    random_selection,
    random_subschema,
    random_update,
)
from nabla.frontends.nested import counts, equations, operators
from nabla.frontends.nested.conditions import condition
from nabla.frontends.nested.equations import UPDATES, Operator, Sign
from nabla.frontends.nested.level_equations import (
    LEVEL_EQUATIONS,
    OPERATORS,
    at_level,
    right_implementation,
    right_standard,
)
from nabla.frontends.nested.levels import Path, apply_at, level_schema
from nabla.frontends.nested.model import Relation
from nabla.frontends.nested.schema import Schema

SIGNS: tuple[Sign, ...] = ("⊕", "⊖")


def random_path(rng: Random, schema: Schema) -> Path:
    """The path of a level below the top, of a schema that has one."""
    return rng.choice([path for path, _ in schema.walk() if path])


def check_level_equations(rng: Random, schema: Schema) -> None:
    """All equations of operators at a level, on one random relation and update of each operand."""
    r, path = random_relation(rng, schema), random_path(rng, schema)
    level = level_schema(schema, path)
    for symbol in OPERATORS:
        own = random_partner(rng, level) if symbol == "⋈" else level
        s = random_relation(rng, own)
        _check_left(symbol, r, random_update(rng, r, schema), s, path)
        _check_right(symbol, r, s, random_update(rng, s, own), path)
    _check_unary(rng, r, schema, path)


def _check_left(symbol: str, r: Relation, d: Relation, s: Relation, path: Path) -> None:
    def op(r: Relation) -> Relation:
        return at_level(symbol, r, s, path)

    for sign in SIGNS:
        expected = op(UPDATES[sign](r, d))
        assert equations.implementation(op, sign, op(r), r, d) == expected, (symbol, sign)
        by_standard = equations.standard(op, sign, op(r), d) == expected
        forms = {e.form for e in LEVEL_EQUATIONS if (e.operator, e.operand, e.sign) == (symbol, "r", sign)}
        assert by_standard or "standard" not in forms, (symbol, sign)
        assert by_standard or "limited standard" not in forms or not equations.join_allows(r, d), (symbol, sign)


def _check_right(symbol: str, r: Relation, s: Relation, d: Relation, path: Path) -> None:
    view = at_level(symbol, r, s, path)
    for sign in SIGNS:
        expected = at_level(symbol, r, UPDATES[sign](s, d), path)
        assert right_implementation(symbol, sign, view, r, s, d, path) == expected, (symbol, sign)
        forms = {e.form for e in LEVEL_EQUATIONS if (e.operator, e.operand, e.sign) == (symbol, "s", sign)}
        if "standard" in forms:
            assert right_standard(symbol, view, r, d, path) == expected, symbol


def _check_unary(rng: Random, r: Relation, schema: Schema, path: Path) -> None:
    """η, π̂ and σ̂ at a level have the forms that they have at the top."""
    level = level_schema(schema, path)
    small, chosen = random_subschema(rng, level), condition(random_selection(rng, level), level)
    d = random_update(rng, r, schema)
    unary: dict[str, Operator] = {
        "π̂": lambda u: operators.projection(u, small),
        "σ̂": lambda u: operators.selection(u, chosen, level),
        "η": lambda u: operators.expansion(operators.projection(u, small), level),
    }
    for symbol, inner in unary.items():

        def op(r: Relation, inner: Operator = inner) -> Relation:
            return apply_at(r, path, inner)

        for sign in SIGNS:
            expected = op(UPDATES[sign](r, d))
            assert equations.implementation(op, sign, op(r), r, d) == expected, (symbol, sign)
            if sign == "⊕" and symbol != "σ̂":
                assert equations.standard(op, sign, op(r), d) == expected, (symbol, sign)


def check_counts(rng: Random, schema: Schema) -> None:
    """Section 4.6: counts beside a projection are maintained without the relation, for any update, and for ⊖ from δ alone."""
    r, shown = random_relation(rng, schema), random_subschema(rng, schema)
    d = random_update(rng, r, schema)
    for sign in SIGNS:
        new = UPDATES[sign](r, d)
        gone, come = counts.leaf_change(r, new)
        beside = counts.subtract(counts.add(counts.counted(r, shown), come, shown), gone)
        assert beside == counts.counted(new, shown), sign
        assert counts.shown(beside) == operators.projection(new, shown), sign
    taken = counts.effective(r, d)
    assert (taken, {}) == counts.leaf_change(r, operators.difference(r, d))
    assert counts.shown(counts.subtract(counts.counted(r, shown), taken)) == operators.projection(
        operators.difference(r, d), shown
    )
