"""Adya's anomalies in a history, found as Elle finds them.

Reads tell on which transaction each one depends: T1 → T2 is `ww` if T2 appended right after T1, `wr` if T2 saw what T1 wrote,
`rw` if T2 wrote what T1 did not see yet, and `rt` if T1 had ended before T2 began. A history is serializable if these
dependencies have no cycle, and strictly so if they have none with `rt`. The class of a cycle is that of its edges:

    G0          only ww
    G1c         ww and wr
    G-single    ww, wr and one rw: lost updates and read skew are of this kind
    G2-item     ww, wr and several rw: write skew is of this kind

A cycle that needs `rt` has the suffix "-realtime". Other anomalies are visible without a graph: G1a (a read of an aborted
write), G1b (a read between two writes of one transaction), a transaction that does not see its own writes (internal), a value
that is there twice (duplicate), lists that no single order of writers explains (incompatible order).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nabla.dev.testing.isolation.history import Operation, Transaction

Edge = tuple[str, str]
"""The kind of a dependency and the transaction that depends."""

Graph = dict[str, set[Edge]]


@dataclass(frozen=True)
class Anomaly:
    """An anomaly of a class, with what was seen."""

    kind: str
    seen: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.seen}"


def find_anomalies(history: Sequence[Transaction]) -> tuple[Anomaly, ...]:
    """All anomalies that are visible without a graph, and of each class of cycles the first one found."""
    found = [
        *_twice(history),
        *_internal(history),
        *_aborted(history),
        *_intermediate(history),
        *_incompatible(history),
    ]
    return (*found, *find_cycles(dependencies(history)))


# ------------------------------------------------------------ without a graph


def _committed_reads(history: Iterable[Transaction]) -> Iterator[tuple[Transaction, Operation]]:
    return ((t, read) for t in history if t.outcome == "committed" for read in t.reads)


def _twice(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    for transaction, read in _committed_reads(history):
        if repeated := [value for value, n in Counter(read.values).items() if n > 1]:
            yield Anomaly("duplicate", f"{repeated} in {transaction}")


def _internal(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    for transaction in history:
        if transaction.outcome == "committed" and not _is_consistent_inside(transaction):
            yield Anomaly("internal", str(transaction))


def _is_consistent_inside(transaction: Transaction) -> bool:
    """Whether every read of an object gives what the one before gave and the transaction's own writes since."""
    seen: dict[str, tuple[int, ...]] = {}
    own: defaultdict[str, tuple[int, ...]] = defaultdict(tuple)
    for operation in transaction.operations:
        key = operation.object
        if not operation.is_read:
            own[key] += operation.values
            continue
        in_order = operation.kind == "read list"
        if key in seen:
            expected = (*seen[key], *own[key])
            if operation.values != (expected if in_order else tuple(sorted(expected))):
                return False
        elif not _ends_with(operation, own[key]):
            return False
        seen[key], own[key] = operation.values, ()
    return True


def _ends_with(read: Operation, written: tuple[int, ...]) -> bool:
    """Whether a read sees the writes that its transaction made before: last, if it is the read of a list."""
    last = read.values[len(read.values) - len(written) :] if read.kind == "read list" else read.values
    return set(written) <= set(last)


def _writers(history: Iterable[Transaction]) -> dict[tuple[str, int], Transaction]:
    return {(write.object, value): t for t in history for write in t.writes for value in write.values}


def _aborted(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    writers = _writers(history)
    for transaction, read in _committed_reads(history):
        for value in read.values:
            writer = writers.get((read.object, value))
            if writer is None:
                yield Anomaly("G1a", f"nobody wrote {value}, which is in {transaction}")
            elif writer.outcome == "aborted":
                yield Anomaly("G1a", f"{transaction} saw {value} of {writer}")


def _intermediate(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    for writer in history:
        written: defaultdict[str, list[int]] = defaultdict(list)
        for write in writer.writes:
            written[write.object] += write.values
        several = {name: set(values) for name, values in written.items() if len(values) > 1}
        for transaction, read in _committed_reads(history) if several else ():
            all_of_it = several.get(read.object, set())
            if transaction is not writer and 0 < len(all_of_it & set(read.values)) < len(all_of_it):
                yield Anomaly("G1b", f"{transaction} saw a part of {writer}")


def _incompatible(history: Sequence[Transaction]) -> Iterator[Anomaly]:
    reads = list(_committed_reads(history))
    for name, longest in _orders(history).items():
        for transaction, read in reads:
            if read.kind == "read list" and read.object == name and read.values != longest[: len(read.values)]:
                yield Anomaly("incompatible order", f"{name}: {list(longest)} and {list(read.values)} in {transaction}")


def _orders(history: Sequence[Transaction]) -> dict[str, tuple[int, ...]]:
    """The longest version of each list that a committed transaction saw: all others must be the beginning of it."""
    longest: dict[str, tuple[int, ...]] = {}
    for _, read in _committed_reads(history):
        if read.kind == "read list" and len(read.values) >= len(longest.get(read.object, ())):
            longest[read.object] = read.values
    return longest


# ------------------------------------------------------------------ cycles


def dependencies(history: Sequence[Transaction]) -> Graph:
    """Who depends on whom. Real time is a chain of moments, `<0`, `<1` and so on, that transactions enter and leave."""
    graph: Graph = defaultdict(set)
    writers = {key: writer for key, writer in _writers(history).items() if writer.outcome != "aborted"}
    orders = _orders(history)
    for name, values in orders.items():
        chain = [writers[name, value].name for value in values if (name, value) in writers]
        for before, after in pairwise(chain):
            _add(graph, before, "ww", after)
    for transaction, read in _committed_reads(history):
        for writer, edge in _read_dependencies(read, orders, writers):
            source, target = (writer, transaction) if edge == "wr" else (transaction, writer)
            _add(graph, source.name, edge, target.name)
    _add_real_time(graph, [t for t in history if t.outcome == "committed"])
    return graph


def _add(graph: Graph, source: str, kind: str, target: str) -> None:
    if source != target:
        graph[source].add((kind, target))


def _read_dependencies(
    read: Operation, orders: dict[str, tuple[int, ...]], writers: dict[tuple[str, int], Transaction]
) -> Iterator[tuple[Transaction, str]]:
    """The writers that a read comes after (wr) and before (rw). Those of a list are a chain: its neighbours are enough."""
    if read.kind == "read list":
        order = orders[read.object]
        seen, unseen = read.values[-1:], order[len(read.values) : len(read.values) + 1]
        if not unseen:  # an append that nobody has seen comes after all that somebody saw
            unseen = tuple(v for (name, v), t in writers.items() if name == read.object and v not in order and _sure(t))
    else:
        seen = read.values
        there = set(seen)
        unseen = tuple(v for (name, v), t in writers.items() if name == read.object and v not in there and _sure(t))
    for values, edge in ((seen, "wr"), (unseen, "rw")):
        for value in values:
            if (read.object, value) in writers:
                yield writers[read.object, value], edge


def _sure(transaction: Transaction) -> bool:
    return transaction.outcome == "committed"


def _add_real_time(graph: Graph, history: Sequence[Transaction]) -> None:
    ends = sorted(history, key=lambda t: t.ended)
    last = -1
    for transaction in sorted(history, key=lambda t: t.began):
        while last + 1 < len(ends) and ends[last + 1].ended < transaction.began:
            last += 1
            _add(graph, ends[last].name, "rt", f"<{last}")
            if last:
                _add(graph, f"<{last - 1}", "rt", f"<{last}")
        if last >= 0:
            _add(graph, f"<{last}", "rt", transaction.name)


_CLASSES: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...] = (
    ("G0", ("ww",), "ww", ("ww",)),
    ("G1c", ("ww", "wr"), "wr", ("ww", "wr")),
    ("G-single", ("ww", "wr", "rw"), "rw", ("ww", "wr")),
    ("G2-item", ("ww", "wr", "rw"), "rw", ("ww", "wr", "rw")),
)
"""Class; the edges that its cycles have; one edge that is in each of them; the edges that lead back to its beginning."""


def find_cycles(graph: Graph) -> Iterator[Anomaly]:
    """A shortest cycle of each class through some edge. A class of more general cycles is told only if no other is there."""
    for suffix, more in (("", ()), ("-realtime", ("rt",))):
        for kind, edges, through, back in _CLASSES:
            parts = strong_components(graph, {*edges, *more})
            cycle = _cycle(graph, parts, through, {*back, *more})
            if cycle:
                yield Anomaly(kind + suffix, cycle)
                return


def _cycle(graph: Graph, part_of: dict[str, int], through: str, back: Collection[str]) -> str:
    for source, edges in graph.items():
        for kind, target in edges:
            if kind == through and part_of.get(source) == part_of.get(target, -1):
                path = _path(graph, target, source, back)
                if path is not None:
                    return f"{source} -{kind}-> {target}" + "".join(f" -{k}-> {name}" for k, name in path)
    return ""


def _path(graph: Graph, start: str, end: str, kinds: Collection[str]) -> list[Edge] | None:
    """A shortest path of edges of these kinds."""
    came: dict[str, tuple[str, str]] = {}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        if here == end:
            steps: list[Edge] = []
            while here != start:
                before, kind = came[here]
                steps.append((kind, here))
                here = before
            return steps[::-1]
        for kind, target in sorted(graph.get(here, ())):
            if kind in kinds and target not in came and target != start:
                came[target] = (here, kind)
                waiting.append(target)
    return None


def strong_components(graph: Graph, kinds: Collection[str]) -> dict[str, int]:
    """The number of the strongly connected component of each node that has one of more than itself (Kosaraju)."""
    backwards: defaultdict[str, list[str]] = defaultdict(list)
    for source, edges in graph.items():
        for kind, target in edges:
            if kind in kinds:
                backwards[target].append(source)
    finished = _depth_first(list(graph), lambda node: [t for k, t in graph.get(node, ()) if k in kinds])
    part_of: dict[str, int] = {}

    def before(node: str) -> list[str]:
        return [n for n in backwards[node] if n not in part_of]

    for number, root in enumerate(reversed(finished)):
        if root not in part_of:
            members = _depth_first([root], before)
            part_of.update(dict.fromkeys(members, number))
    sizes = Counter(part_of.values())
    return {node: number for node, number in part_of.items() if sizes[number] > 1}


def _depth_first(roots: Iterable[str], neighbours: Callable[[str], list[str]]) -> list[str]:
    """The nodes that can be reached, in the order in which a depth-first search leaves them."""
    left: list[str] = []
    seen: set[str] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(neighbours(root)))]
        while stack:
            node, rest = stack[-1]
            following = next((n for n in rest if n not in seen), None)
            if following is None:
                stack.pop()
                left.append(node)
            else:
                seen.add(following)
                stack.append((following, iter(neighbours(following))))
    return left
