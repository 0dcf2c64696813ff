"""Rules as views: every predicate of a program is a view; those that depend on each other are built and refreshed together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.algebra.clock import Moments, functions
from nabla.algebra.expressions import quote
from nabla.algebra.nodes import Constant, Node
from nabla.calculus.obstacles import expressions
from nabla.engine import types
from nabla.engine.execute import run
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, Relations
from nabla.engine.spark.frames import Sessions, Workspace
from nabla.engine.spark.rounds import Rounds
from nabla.errors import NablaError
from nabla.frontends.datalog import magic
from nabla.frontends.datalog.functions import Changeable, UnknownType
from nabla.frontends.datalog.program import Program, parse_program
from nabla.frontends.datalog.propagate import show
from nabla.frontends.datalog.stored import StoredRules, new_rules, store
from nabla.frontends.datalog.terms import Term, sql_of
from nabla.frontends.spark_sql.define import define
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import followed_at_once, sources_of
from nabla.lake.objects.sources import columns_of, current_source, make_source
from nabla.lake.objects.view import View, load_view, task_of
from nabla.lake.refresh.create import ViewDefinition, create
from nabla.lake.refresh.schedule import check_schedule
from nabla.lake.reports import RefreshReport
from nabla.lake.write.commit import Commit
from nabla.planner.choose import LARGE_CHANGE
from nabla.planner.delta_steps import rebuild_steps
from nabla.planner.steps import Plan, Size
from nabla.storage.catalog import Entry, LakeState

_NAME = re.compile(r"\w[\w .-]*")


def create_rules(
    context: LakeContext, name: str, text: str, rebuild: bool = False, maintain: str = "deferred"
) -> RefreshReport:
    """Read a program over the lake's tables and views, and build a view for each of its predicates: all, or none."""
    if not _NAME.fullmatch(name):
        remedy = "Use letters, digits, underscores, dots and dashes."
        raise NablaError("NABLA_NAME", f"rules cannot be called {name!r}", place="name", remedy=remedy)
    check_schedule(maintain)
    state = context.log.state()
    known = programs(state).get(name)
    before = set(known.program.stored) if known else set()
    tables = {n: columns_with_types(context, e) for n, e in state.entries.items() if n not in before}
    rules = new_rules(name, text, tables, lambda term, columns: _type_of(context, sql_of(term), columns))
    program = rules.program
    if not program.stored:
        remedy = "Write at least one, such as path(X, Y) :- edge(X, Y)."
        raise NablaError("NABLA_RULES_SYNTAX", "there is no rule in the text", place=f'rules "{name}"', remedy=remedy)
    if known is not None and not rebuild:
        raise _exists(context, known, program)
    _refuse_circles(state, rules)
    given = replace(state, entries=state.changed(dict.fromkeys(before)))
    for predicate in program.stored:
        context.names(given).check_new(predicate)
    _refuse_use(state, name, before - set(program.stored), besides=before)
    _refuse_denied(state, name, before)
    views = {p: replace(_view(rules, p), maintain=maintain) for p in program.stored}
    units = [ViewDefinition(tuple(views[p] for p in unit), f'rules "{name}"') for unit in _units(program)]
    return RefreshReport(create(context, state, "create rules", units, replaced=before))


def define_rules(context: LakeContext, name: str, text: str, tables: Mapping[str, list[tuple[str, str]]]) -> list[View]:
    """The views that rules define over tables with these columns, in the order in which they are built. Nothing is built."""
    rules = new_rules(name, text, tables, lambda term, columns: _type_of(context, sql_of(term), columns))
    return [_view(rules, predicate) for unit in _units(rules.program) for predicate in unit]


def _exists(context: LakeContext, known: StoredRules, program: Program) -> NablaError:
    if _meaning(known.program) != _meaning(program):
        return NablaError(
            "NABLA_DEFINITION_CHANGED",
            f'the rules "{known.name}" exist with another definition',
            place=f"lake {context.path}",
            remedy="Pass rebuild=True to replace them and compute them anew.",
        )
    return NablaError(
        "NABLA_EXISTS",
        f'there are rules "{known.name}" already',
        place=f"lake {context.path}",
        remedy="Drop them first, or pass rebuild=True to build them anew.",
    )


def _meaning(program: Program) -> tuple[object, ...]:
    """The clauses and columns of a program, without comments and layout."""
    return tuple(map(str, program.clauses)), tuple(program.columns(p) for p in program.stored)


def _refuse_circles(state: LakeState, rules: StoredRules) -> None:
    """Refuse new rules that read a view which reads their own predicates."""
    own, waiting = set(rules.program.stored), list(rules.program.tables)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in own:
            raise NablaError(
                "NABLA_CYCLE",
                f'"{name}" would depend on itself',
                place=f'rules "{rules.name}"',
                remedy="Define all that depends on each other in the same rules.",
            )
        if name not in seen:
            seen.add(name)
            waiting += state.entries[name].facts.get("sources", {})


def drop_rules(context: LakeContext, name: str) -> None:
    state = context.log.state()
    own = set(find_rules(context, name, state).program.stored)
    _refuse_use(state, name, own, besides=own)
    _refuse_denied(state, name, own)
    with context.events.run("drop", sorted(own)), Commit(context, state) as commit:
        commit.drop(own)
        commit.publish("drop rules")


def _refuse_use(state: LakeState, name: str, predicates: Set[str], besides: Set[str]) -> None:
    """Refuse to remove predicates that other views read."""
    for other, entry in state.entries.items():
        used = predicates & entry.facts.get("sources", {}).keys()
        if used and other not in besides:
            raise NablaError(
                "NABLA_IN_USE",
                f'"{min(used)}" is read by {other}',
                place=f'rules "{name}"',
                remedy="Drop that first.",
            )


def _refuse_denied(state: LakeState, name: str, predicates: Set[str]) -> None:
    """Refuse to change predicates whose rules a constraint asks: it has them as they were when it was made."""
    for other, entry in state.entries.items():
        if entry.kind == "constraint" and (denied := load_view(other, entry.definition).denied):
            asked = predicates & set(denied.program.stored)
            if asked:
                raise NablaError(
                    "NABLA_IN_USE",
                    f'the constraint "{other}" asks for "{min(asked)}"',
                    place=f'rules "{name}"',
                    remedy="Drop the constraint first, and make it again over the new rules.",
                )


def read_denial(context: LakeContext, name: str, text: str, state: LakeState) -> StoredRules:
    """The rules of a constraint: its own, and those of the predicates it reads that are not up to date at every moment.

    What a commit itself keeps up to date (tables and immediate views) is read as it is.
    """
    tables = {n: columns_with_types(context, e) for n, e in state.entries.items()}

    def type_of(term: Term, columns: Mapping[str, str]) -> str:
        return _type_of(context, sql_of(term), columns)

    own = parse_program(text, tables, type_of, denies=True)
    taken = set(own.predicates) & state.entries.keys()
    if taken:
        raise NablaError(
            "NABLA_EXISTS",
            f'the rules of the constraint define "{min(taken)}", which is there already',
            place=f'constraint "{name}"',
            remedy="Give the predicate another name.",
        )
    asked = _asked_programs(state, own.inputs)
    if not asked:
        return store(name, own)
    kept = {n: columns for n, columns in tables.items() if not any(n in program.stored for program in asked)}
    return store(name, parse_program("\n".join([*(p.text for p in asked), text]), kept, type_of, denies=True))


def _asked_programs(state: LakeState, names: Iterable[str]) -> list[Program]:
    """The programs that define predicates among these names, and among what such programs read, unless a commit keeps them
    up to date."""
    found: dict[str, Program] = {}
    waiting = list(names)
    while waiting:
        entry = state.entries[waiting.pop()]
        if entry.kind == "view" and followed_at_once(entry) != sources_of(entry):
            rules = load_view(entry.name, entry.definition).rules
            if rules is not None and rules.name not in found:
                found[rules.name] = rules.program
                waiting += rules.program.inputs
    return list(found.values())


def ask(context: LakeContext, question: str, state: LakeState | None = None) -> DataFrame:
    """The rows of a predicate that a question matches, computed from the tables for just that question, in the state of the
    lake that is given, or now."""
    state = state or context.log.state()
    predicate, program = _asked_about(question, state)
    read = {n: current_source(context.log, n, state) for n in program.tables}
    size: Size = "large" if sum(s.after.rows for s in read.values()) > LARGE_CHANGE else "tiny"
    view = load_view(predicate, state.entries[predicate].definition)
    now = context.now(view.settings)
    workspace = context.spark.workspace(size, view.settings)
    plan = Plan(predicate, "full", "asked", (), size=size)
    sessions = context.spark.sessions(lambda size: workspace, view.settings)
    queries = Queries(sessions, Relations(read, {}, Moments(now, now)), plan)
    frame = _answer(program, question, queries, view.schema).frame(context.spark.home)
    return frame.toDF(*(c.name for c in program.columns(predicate)))


def tables_of_question(question: str, state: LakeState) -> list[str]:
    """The tables and views that the rules of the asked predicate read."""
    return list(_asked_about(question, state)[1].tables)


def _asked_about(question: str, state: LakeState) -> tuple[str, Program]:
    """The predicate that a question is about, and the program that defines it."""
    predicate = question.split("(", 1)[0].strip()
    entry = state.entries.get(predicate)
    rules = load_view(predicate, entry.definition).rules if entry is not None and entry.kind == "view" else None
    if rules is None:
        raise NablaError(
            "NABLA_RULES_UNKNOWN",
            f"no rules define {predicate}",
            place=question,
            remedy=f"Ask about {', '.join(p for r in programs(state).values() for p in r.program.predicates)}.",
        )
    return predicate, rules.program


def _answer(program: Program, question: str, queries: Queries, schema: StructType) -> ComputedRows:
    rounds = Rounds(queries)
    return rounds.whole(magic.ask(program, question, rounds), schema)


def recompute_recursive(
    context: LakeContext, workspace: Workspace, view: View, entry: Entry, state: LakeState
) -> DataFrame:
    """A recursive view, the violations of a denial, or a query with a recursion of sets, for which Spark has no text: computed
    from scratch by Spark, from the versions that it reflects."""
    sources = {n: make_source(context.log, n, state, v, v) for n, v in entry.facts["sources"].items()}
    now = context.now(view.settings)
    plan = Plan(view.name, "full", "verified", rebuild_steps(view.staged) if view.once else ())
    separate = partial(context.spark.separate, settings=view.settings)
    sessions = Sessions(lambda size: workspace, lambda size: workspace, separate)
    queries = Queries(sessions, Relations(sources, {}, Moments(now, now)), plan, only_spark=True)
    views = {p: load_view(p, state.entries[p].definition) for p in view.group}
    return run(task_of(views), queries)[view.name].whole.rows.frame(workspace)


def programs(state: LakeState) -> dict[str, StoredRules]:
    """The programs of a lake by name."""
    found: dict[str, StoredRules] = {}
    for name, entry in state.entries.items():
        if entry.kind == "view" and entry.definition.get("rules"):
            rules = load_view(name, entry.definition).rules
            assert rules is not None
            found.setdefault(rules.name, rules)
    return found


def rule_texts(context: LakeContext) -> dict[str, str]:
    """The texts of all rules, by name."""
    return {name: known.program.text for name, known in programs(context.log.state()).items()}


def find_rules(context: LakeContext, name: str, state: LakeState) -> StoredRules:
    known = programs(state)
    if name not in known:
        there = f"There are {', '.join(known)}." if known else "Create them first."
        raise NablaError(
            "NABLA_RULES_UNKNOWN", f'there are no rules "{name}"', place=f"lake {context.path}", remedy=there
        )
    return known[name]


def show_delta_rules(context: LakeContext, name: str) -> str:
    """The incremental rules of a program, as Manthey derives them, for people."""
    return show(find_rules(context, name, context.log.state()).program)


def _units(program: Program) -> Iterator[tuple[str, ...]]:
    for stratum in program.strata:
        if stratum.recursive:
            yield stratum.predicates
        else:
            yield from ((p,) for p in stratum.predicates if p in program.stored)


def _view(rules: StoredRules, predicate: str) -> View:
    program = rules.program
    columns = program.columns(predicate)
    recursive = program.recursive(predicate)
    plan: Node = Constant(columns, ()) if recursive else program.plan(predicate)
    outputs = tuple(c.name for c in columns)
    notes = ("recursive: over-deleted and rederived, round by round",) if recursive else ()
    return View.of(predicate, plan, outputs, None, notes, rules=rules)


def columns_with_types(context: LakeContext, entry: Entry) -> list[tuple[str, str]]:
    """The columns of a table or view as rules read them."""
    shape = types.from_json(context.log.snapshot(entry.parts["data"]).schema_json)
    names = columns_of(entry)
    return [(name, field.dataType.simpleString()) for name, field in zip(names, shape.fields, strict=True)]


def _type_of(context: LakeContext, sql: str, columns: Mapping[str, str]) -> str:
    """The type that Spark gives an expression of a rule, which has to depend on its facts alone: no rand(), no clock."""
    row = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns.items())
    try:
        frame = context.spark.home.sql(f"SELECT {sql} AS value FROM (SELECT {row or '1 AS one'})")
    except PySparkException as error:
        raise UnknownType(str(error).splitlines()[0]) from error
    plan = define(context.spark.session, frame, (), "value").plan
    parts = [part for node in plan.walk() for part, _ in expressions(node)]
    if not all(part.deterministic for part in parts) or any(map(functions, parts)):
        raise Changeable(sql)
    return frame.schema.fields[0].dataType.simpleString()
