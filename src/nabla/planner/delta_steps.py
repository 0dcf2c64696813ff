"""The steps that bring a view up to date, from its stages and the names of the relations that changed."""

from __future__ import annotations

from dataclasses import replace

from nabla.algebra.build import all_of
from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Filter, Node, Project, Scan
from nabla.algebra.traverse import relations
from nabla.calculus.by_key import restrict_to_touched, touched_keys
from nabla.calculus.delta import Derivation
from nabla.calculus.stages import Levels, Stage, Staged
from nabla.planner.steps import Build, Finish, Iterate, Produce, Recompute, Replace, Settle, Step, Touch
from nabla.rewrite.join_order import NOTHING_KNOWN, TableSizes
from nabla.rewrite.passes import AFTER_DERIVATION, BEFORE_DERIVATION, Sizes, rewrite


def maintenance_steps(staged: Staged, changed: frozenset[str], rows: TableSizes = NOTHING_KNOWN) -> tuple[Step, ...]:
    """Steps that compute the change of the view and of every stage's state from the changes of the tables `changed`.

    `rows` are the sizes of tables. They decide the order of joins, not the result.
    """
    if staged.keyed:
        keys = touched_keys(staged.root, staged.key, changed)
        if keys is None:
            return ()
        near = _after_derivation(restrict_to_touched(staged.root, staged.key), rows)
        met = None if keys.met is None else _after_derivation(keys.met, rows)
        return (Replace(staged.key_places, keys.node, near, keys.tables, met),)
    steps: list[Step] = []
    moved = set(changed)
    for stage in staged.stages:
        if stage.reads & moved:
            finish = _finish(staged, stage) if stage is staged.merged_stage else None
            steps += _stage_steps(stage, staged, frozenset(moved), rows, finish)
            moved.add(stage.table)
    if staged.merged_stage is None and relations(staged.root) & moved:
        change = _derive(staged, staged.root, frozenset(moved), rows)
        steps.append(Produce(_after_derivation(change, rows)))
    return tuple(steps)


def rebuild_steps(staged: Staged) -> tuple[Step, ...]:
    """Steps that compute every state and the view whole."""
    everything = staged.derivation_of_build()
    builds: list[Step] = [_build(stage, everything) for stage in staged.stages]
    return (*builds, Recompute(everything.new(staged.root)))


def _build(stage: Stage, everything: Derivation) -> Step:
    if isinstance(stage, Levels):
        recursion = stage.recursion
        return Iterate(stage, everything.new(recursion.start), everything.new(recursion.step), anew=True)
    return Build(stage, stage.initial(everything))


def _levels(stage: Levels, staged: Staged, moved: frozenset[str], rows: TableSizes, finish: Finish | None) -> Iterate:
    """The step for a recursion, with a query for each case: the level before changed, the tables of the step, or both."""
    start, step = stage.recursion.start, stage.recursion.step
    level = frozenset((stage.recursion.table,))

    def change(of: Node, changed: frozenset[str]) -> Node | None:
        found = staged.derivation(changed).d(_before_derivation(of, changed, rows))
        return None if found is None else _after_derivation(found, rows)

    from_level = change(step, level)
    assert from_level is not None
    if not stage.step_moves(moved):
        return Iterate(stage, change(start, moved), from_level, finish=finish)
    from_both, from_tables = change(step, moved | level), change(step, moved)
    return Iterate(stage, change(start, moved), from_level, from_both, from_tables, finish=finish)


def _stage_steps(
    stage: Stage, staged: Staged, moved: frozenset[str], rows: TableSizes, finish: Finish | None
) -> list[Step]:
    if isinstance(stage, Levels):
        return [_levels(stage, staged, moved, rows, finish)]
    derivation = staged.derivation(moved)
    ordered = _with_source(stage, _before_derivation(stage.source, moved, rows))
    touched = ordered.find_touched(derivation)
    steps: list[Step] = [Touch(stage, _after_derivation(touched, rows))] if touched is not None else []
    query = _after_derivation(ordered.settle(derivation, deleted_extremes=False), rows)
    if_lost = _after_derivation(ordered.settle(derivation), rows) if stage.deletions() else None
    return [*steps, Settle(stage, query, if_lost, finish)]


def _before_derivation(node: Node, changed: frozenset[str], rows: TableSizes) -> Node:
    return rewrite(node, BEFORE_DERIVATION, Sizes(changed, rows))


def _after_derivation(node: Node, rows: TableSizes) -> Node:
    return rewrite(node, AFTER_DERIVATION, Sizes(rows=rows))


def _with_source(stage: Stage, source: Node) -> Stage:
    return replace(stage, node=stage.node.with_inputs(source))


def _derive(staged: Staged, node: Node, moved: frozenset[str], rows: TableSizes) -> Node:
    derivation: Derivation = staged.derivation(moved)
    change = derivation.d(_before_derivation(node, moved, rows))
    assert change is not None
    return change


def _finish(staged: Staged, stage: Stage) -> Finish:
    """The filters and projections above the last stage as expressions over its state."""
    chain = []
    node = staged.root
    while isinstance(node, Filter | Project):
        chain.append(node)
        node = node.inputs[0]
    assert isinstance(node, Scan)
    by_field = {o.column.name: o.expr for o in stage.outputs()}
    definitions: dict[str, Expr] = {c.name: by_field[f] for c, f in zip(node.output, node.fields, strict=True)}
    present = stage.present()
    tests = [present] if present else []
    for part in reversed(chain):
        if isinstance(part, Filter):
            tests += [c.substitute(definitions) for c in part.conjuncts]
        else:
            definitions = {o.column.name: o.expr.substitute(definitions) for o in part.outputs}
    keep = all_of(tests) if tests else None
    return Finish(stage, tuple(definitions[c.name] for c in staged.root.columns), keep)
