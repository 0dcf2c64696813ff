"""Random nested relations, updates and expressions, and the laws that they must satisfy.

Domains are tiny, so that keys meet; subrelations are often empty, and NULLs are keys like others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate, negated
from nabla.dev.testing import maintained
from nabla.errors import NablaError
from nabla.frontends.nested import equations, meaning, model, operators
from nabla.frontends.nested.conditions import Selection, condition
from nabla.frontends.nested.equations import Operator, Sign
from nabla.frontends.nested.language import Nested, Shape, nest, nested
from nabla.frontends.nested.levels import level_schema
from nabla.frontends.nested.meaning import NestedSource
from nabla.frontends.nested.model import Relation
from nabla.frontends.nested.plans import to_plan
from nabla.frontends.nested.schema import Schema, join_schemas
from nabla.frontends.nested.updates import CHANGE, TABLE, change, updated_plan

_DOMAINS = {"int": (0, 1, 2, 3), "string": ("a", "b", "c")}


def random_schema(rng: Random, height: int = 3) -> Schema:
    """A tree of at most `height` levels, with at most two atomic and two structured attributes at each."""
    numbers = iter(range(100))

    def level(height: int, top: bool) -> Schema:
        atoms = tuple((f"a{next(numbers)}", rng.choice(("int", "string"))) for _ in range(rng.choice((1, 1, 2))))
        wide = rng.choice((1, 1, 2)) if top else rng.choice((0, 1, 1, 2))
        parts = tuple((f"P{next(numbers)}", level(height - 1, False)) for _ in range(wide if height > 1 else 0))
        return Schema(atoms, parts)

    return level(height, True)


def random_relation(rng: Random, schema: Schema, size: int = 4) -> Relation:
    result: Relation = {}
    for _ in range(rng.randint(0, size)):
        key = tuple(None if rng.random() < 0.1 else rng.choice(_DOMAINS[kind]) for _, kind in schema.atoms)
        result.setdefault(
            key, {name: random_relation(rng, part, 0 if rng.random() < 0.3 else 3) for name, part in schema.parts}
        )
    return result


def random_update(rng: Random, r: Relation, schema: Schema) -> Relation:
    """Parts of r and other things, on r's keys and on others."""

    def piece(r: Relation) -> Relation:
        return {k: {n: piece(p) for n, p in t.items()} for k, t in r.items() if rng.random() < 0.6}

    return operators.union(piece(r), random_relation(rng, schema, 2)) if rng.random() < 0.8 else piece(r)


def random_subschema(rng: Random, schema: Schema) -> Schema:
    kept = [(name, random_subschema(rng, part)) for name, part in schema.parts if rng.random() < 0.6]
    return Schema(schema.atoms, tuple(kept))


def random_partner(rng: Random, schema: Schema) -> Schema:
    """A schema that is joinable with another one: part of it, and structured attributes of its own."""
    parts = [(name, random_partner(rng, part)) for name, part in schema.parts if rng.random() < 0.7]
    if rng.random() < 0.5:
        parts.append((f"Q{schema.key[0]}", Schema(((f"q{schema.key[0]}", "int"),))))
    return Schema(schema.atoms, tuple(parts))


def random_selection(rng: Random, schema: Schema, top: bool = True) -> Selection:
    selection: dict[str, str | Selection] = {}
    if rng.random() < 0.6:
        name, kind = rng.choice(schema.atoms)
        value = rng.choice(_DOMAINS[kind])
        selection["where"] = f"{name} {rng.choice(('=', '<>', '<', '>='))} {value!r}"
    for name, part in schema.parts:
        if rng.random() < 0.7:
            selection[name] = random_selection(rng, part, False)
    if not top:
        selection["is"] = rng.choice(("any", "empty", "nonempty", "nonempty"))
    return selection


def shape_of(schema: Schema) -> Shape:
    return [*schema.key, *({name: shape_of(part)} for name, part in schema.parts)]


@dataclass(frozen=True)
class NestedCase:
    """Tables r and s over one schema, t over a joinable one, f with the flat form of r; their values before and after."""

    expression: Nested
    sources: dict[str, NestedSource]
    before: dict[str, Relation]
    after: dict[str, Relation]

    @property
    def database(self) -> Database:
        fields = {name: source.schema.names for name, source in self.sources.items()}
        old, new = (
            {name: rows(r, self.sources[name].schema) for name, r in state.items()}
            for state in (self.before, self.after)
        )
        return Database(fields, old, new)


def rows(r: Relation, schema: Schema) -> Bag:
    return Counter(tuple(struct) for struct in model.structs(r, schema))


def random_expression(rng: Random, sources: dict[str, NestedSource], depth: int) -> Nested:
    """Any operators whose operands fit."""
    schema = sources["r"].schema
    if depth == 0:
        return nested(rng.choice("rs")) if rng.random() < 0.9 else nest("f", *shape_of(schema))
    inner = random_expression(rng, sources, depth - 1)
    own = meaning.schema_of(inner, sources)
    if rng.random() < 0.35:
        return random_level_operator(rng, sources, inner)
    if own == schema and rng.random() < 0.5:
        other = random_expression(rng, sources, depth - 1)
        if meaning.schema_of(other, sources) == own:
            return rng.choice((inner.union, inner.difference, inner.intersect, inner.join))(other)
    choice = rng.random()
    if choice < 0.4:
        selection = dict(random_selection(rng, own))
        return inner.select(**selection)  # type: ignore[arg-type]
    if choice < 0.6:
        return inner.project(*shape_of(random_subschema(rng, own)))
    if choice < 0.7:
        return inner.project().expand(", ".join(f"{name} {kind}" for name, kind in schema.types.items()))
    if not _joinable(own, sources["t"].schema):
        return inner
    return inner.join("t", on=random_meetings(rng, own, sources["t"].schema))


def random_level_operator(rng: Random, sources: dict[str, NestedSource], inner: Nested) -> Nested:
    """An operator below the top level: the other operand is u, which has the schema of a level of r, or w, joinable with it."""
    schema, own = meaning.schema_of(inner, sources), sources["u"].schema
    paths = [path for path, _ in schema.walk() if path]
    if not paths:
        return inner
    same = [path for path in paths if level_schema(schema, path) == own]
    if same and rng.random() < 0.5:
        return rng.choice((inner.union, inner.difference, inner.intersect, inner.join))("u", at=rng.choice(same))
    joinable = [path for path in paths if _joinable(level_schema(schema, path), sources["w"].schema)]
    if joinable and rng.random() < 0.5:
        path, other = rng.choice(joinable), sources["w"].schema
        on = random_meetings(rng, level_schema(schema, path), other)
        return inner.join(nested("w").select(**_by_name(rng, other)), at=path, on=on)
    path = rng.choice(paths)
    level = level_schema(schema, path)
    if rng.random() < 0.4:
        return inner.select(at=path, **_by_name(rng, level))
    small = random_subschema(rng, level)
    projected = inner.project(*shape_of(small), at=path)
    back = rng.random() < 0.5
    return projected.expand(", ".join(f"{n} {kind}" for n, kind in level.types.items()), at=path) if back else projected


def random_meetings(rng: Random, r: Schema, s: Schema) -> dict[str, str]:
    """Subrelations of two schemas that can meet, or none."""
    common = [(p, q) for p, own in r.parts for q, other in s.parts if set(own.atoms) & set(other.atoms)]
    return dict([rng.choice(common)]) if common and rng.random() < 0.5 else {}


def _by_name(rng: Random, schema: Schema) -> dict[str, Any]:
    return dict(random_selection(rng, schema))


def _joinable(r: Schema, s: Schema) -> bool:
    try:
        join_schemas(r, s)
    except NablaError:
        return False
    return True


def random_view(rng: Random, height: int = 3) -> tuple[Nested, dict[str, NestedSource]]:
    """An expression, and the tables that it may read."""
    sources = random_sources(rng, height)
    return random_expression(rng, sources, rng.randint(1, 3)), sources


def random_sources(rng: Random, height: int = 3) -> dict[str, NestedSource]:
    schema = random_schema(rng, height)
    flat = Schema(tuple((name, kind) for _, name, kind in schema.all_atoms))
    level = rng.choice([part for path, part in schema.walk() if path] or [schema])
    below = {"u": level, "w": random_partner(rng, level)}
    schemas = {"r": schema, "s": schema, "t": random_partner(rng, schema), "f": flat, **below}
    return {name: NestedSource(s) for name, s in schemas.items()}


def random_states(rng: Random, expression: Nested, sources: dict[str, NestedSource]) -> NestedCase:
    """Values of the tables, and an update ⊕ or ⊖ of some of them."""
    before: dict[str, Relation] = {}
    after: dict[str, Relation] = {}
    for name, source in sources.items():
        r = random_relation(rng, source.schema)
        before[name] = r
        update = equations.UPDATES[rng.choice(("⊕", "⊖"))]
        after[name] = update(r, random_update(rng, r, source.schema)) if rng.random() < 0.7 else r
    return NestedCase(expression, sources, before, after)


# The laws


def check_equations(rng: Random, schema: Schema) -> None:
    """All equations, on one random relation and update."""
    r, s = random_relation(rng, schema), random_relation(rng, schema)
    d = random_update(rng, r, schema)
    t_schema, sub = random_partner(rng, schema), random_subschema(rng, schema)
    t, small = random_relation(rng, t_schema), random_relation(rng, sub)
    c = condition(random_selection(rng, schema), schema)
    operators_of: dict[str, Operator] = {
        "π̂": lambda r: operators.projection(r, sub),
        "σ̂": lambda r: operators.selection(r, c, schema),
        "⊙": lambda r: operators.intersection(r, s),
        "⋈": lambda r: operators.join(r, t),
        "⊕": lambda r: operators.union(r, s),
        "⊖": lambda r: operators.difference(r, s),
    }
    conditions: dict[str, Callable[[Sign], bool]] = {
        "π̂": lambda sign: equations.projection_allows(r, d, sub),
        "σ̂": lambda sign: equations.selection_allows(r, d, c, schema, sign),
        "⊙": lambda sign: equations.intersection_allows(r, d, s),
        "⋈": lambda sign: equations.join_allows(r, d),
    }
    signs: tuple[Sign, ...] = ("⊕", "⊖")
    for symbol, op in operators_of.items():
        for sign in signs:
            expected = op(equations.UPDATES[sign](r, d))
            assert equations.implementation(op, sign, op(r), r, d) == expected, (symbol, sign)
            by_standard = equations.standard(op, sign, op(r), d) == expected
            forms = {e.form for e in equations.EQUATIONS if e.operator == symbol and e.sign == sign}
            assert by_standard or "standard" not in forms, (symbol, sign)
            if "limited standard" in forms:
                assert by_standard or not conditions[symbol](sign), (symbol, sign)
                if symbol in ("π̂", "⊙"):
                    assert by_standard == conditions[symbol](sign), (symbol, sign)
        if symbol in ("π̂", "⊙", "⋈"):
            assert equations.with_recomputation(op, op(r), r, d) == op(operators.difference(r, d)), symbol
    update = random_update(rng, small, sub)
    for sign in signs:
        op = lambda x: operators.expansion(x, schema)  # noqa: E731
        assert equations.standard(op, sign, op(small), update) == op(equations.UPDATES[sign](small, update)), sign
    check_properties(r, d)


def check_properties(r: Relation, d: Relation) -> None:
    """Theorem 3.1, and containment after an update."""
    inside = model.contained(d, r)
    assert inside == (operators.intersection(r, d) == d) == (operators.union(r, d) == r)
    assert model.contained(r, operators.union(r, d))
    assert model.contained(d, operators.union(r, d))
    assert model.contained(operators.difference(r, d), r)


def check_expression(case: NestedCase) -> None:
    """Check that the plan gives the result of the operators, in PNF and in canonical order, and that it can be maintained."""
    plan = to_plan(case.expression, case.sources)
    schema = meaning.schema_of(case.expression, case.sources)
    found = evaluate(plan, case.database)
    assert found == rows(meaning.evaluate(case.expression, case.sources, case.after), schema), case
    assert rows(model.relation(found, schema), schema) == found, case
    changed = frozenset(name for name in case.sources if case.before[name] != case.after[name])
    maintained.check(plan, case.database, changed)
    if meaning.is_by_key(case.expression, case.sources):
        maintained.check(plan, case.database, changed, key=schema.key)


def check_update(rng: Random, schema: Schema) -> None:
    """Check that the flat change of a table has exactly the update's rows, in Python and as algebra."""
    r, small = random_relation(rng, schema), random_subschema(rng, schema)
    d = operators.projection(random_update(rng, r, schema), small)
    sign: Sign = rng.choice(("⊕", "⊖"))
    full = operators.expansion(d, schema)
    deleted, inserted = change(r, full, sign)
    new = equations.UPDATES[sign](r, full)
    expected = added(rows(new, schema), negated(rows(r, schema)))
    assert added(rows(inserted, schema), negated(rows(deleted, schema))) == expected
    state = {TABLE: rows(r, schema), CHANGE: rows(d, small)}
    database = Database({TABLE: schema.names, CHANGE: small.names}, state, state)
    near = {key: t for key, t in new.items() if key in d}
    assert evaluate(updated_plan(schema, small, sign), database) == rows(near, schema)
