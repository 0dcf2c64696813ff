"""Laying out SQL that Nabla printed: clauses on lines of their own, subqueries indented, expressions as they are.

A full parser would have to know all of Spark's expressions; this needs only the clauses that the printer uses, which never
occur inside an expression but in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nabla.algebra.notation.formula import bare

WIDTH = 100
_TOKEN = re.compile(r"""r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*"|`(?:[^`]|``)+`|/\*.*?\*/|\w+|\s+|.""", re.DOTALL)
_CLAUSE = re.compile(
    r"\b(WITH|SELECT|FROM|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|OFFSET|ON|LATERAL VIEW"
    r"|(?:LEFT SEMI |LEFT ANTI |LEFT |RIGHT |FULL )?JOIN|(?:UNION|EXCEPT|INTERSECT) ALL)\b"
)
_SAME = re.compile(r"(`[^`]+`|\w+) AS \1")


def laid_out(sql: str, indent: str = "") -> str:
    """The same query on several lines, each starting with `indent`."""
    return "\n".join(_query(sql.strip(), indent))


def _outside(text: str) -> str:
    """The text with everything inside parentheses, literals and names blanked out."""
    depth, out = 0, []
    for token in _TOKEN.findall(text):
        depth -= token == ")"
        out.append(token if depth == 0 and token[0] not in "'\"`/" else "\1" * len(token))
        depth += token == "("
    return "".join(out)


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark outside of parentheses."""
    ends = [*(m.span() for m in re.finditer(re.escape(mark), _outside(text))), (len(text), len(text))]
    starts = [0, *(end for _, end in ends)]
    return [text[a:b].strip() for a, (b, _) in zip(starts, ends, strict=False)]


def _query(text: str, indent: str) -> Iterator[str]:
    cuts = [m.span() for m in _CLAUSE.finditer(_outside(text))]
    if len(indent) + len(text) <= WIDTH and [text[a:b] for a, b in cuts] == ["SELECT", "FROM"]:
        yield indent + _tidy(text)
        return
    if not cuts or cuts[0][0] > 0:
        yield from _relation("", text[: cuts[0][0] if cuts else len(text)].strip(), indent)
    for (start, end), (stop, _) in zip(cuts, [*cuts[1:], (len(text), 0)], strict=True):
        yield from _clause(text[start:end], text[end:stop].strip(), indent)


def _clause(word: str, body: str, indent: str) -> Iterator[str]:
    if word == "WITH":
        tables = _split(body, ",")
        for i, table in enumerate(tables):
            name, _, query = table.partition(" AS (")
            yield f"{indent}{'WITH ' if i == 0 else ''}{name} AS ("
            yield from _query(query.removesuffix(")"), indent + "  ")
            yield f"{indent}){',' if i < len(tables) - 1 else ''}"
    elif word == "SELECT":
        hint, rest = re.fullmatch(r"((?:/\*.*?\*/ |DISTINCT )?)(.*)", body, re.DOTALL).groups()  # type: ignore[union-attr]
        yield from _filled(f"{indent}SELECT {hint}", [_named_once(i) for i in _split(rest, ",")], indent + "  ")
    elif word in ("WHERE", "ON", "HAVING"):
        inner = indent + "  " if word == "ON" else indent
        tests = [bare(t) for t in _split(body, " AND ")]
        one = f"{inner}{word} {' AND '.join(tests)}"
        yield from [one] if len(one) <= WIDTH else _and_lines(f"{inner}{word} ", tests, inner + "  ")
    elif word == "FROM" or word.endswith(("JOIN", " ALL")):
        yield from _relation(word + " " if body else word, body, indent)
    else:
        yield from _filled(f"{indent}{word} ", _split(body, ","), indent + "  ")


def _and_lines(head: str, tests: list[str], inner: str) -> Iterator[str]:
    yield head + tests[0]
    yield from (f"{inner}AND {test}" for test in tests[1:])


def _relation(head: str, body: str, indent: str) -> Iterator[str]:
    """A table, or a subquery with its alias: on one line if it is short."""
    line = f"{indent}{head}{_tidy(body)}"
    if not body.startswith("(") or (len(line) <= WIDTH and not re.search(r"\b(WHERE|ON|UNION|GROUP)\b", body)):
        yield line
        return
    outside = _outside(body)
    close = outside.index(")")
    yield f"{indent}{head}("
    yield from _query(body[1:close], indent + "  ")
    yield f"{indent}){body[close + 1 :]}"


def _filled(line: str, items: list[str], indent: str) -> Iterator[str]:
    """Items of a list, as many on a line as fit."""
    pieces = [item + ("," if i < len(items) - 1 else "") for i, item in enumerate(items)]
    for i, piece in enumerate(p for whole in pieces for p in (_arguments(whole) if len(whole) > WIDTH else [whole])):
        if i > 0 and len(line) + 1 + len(piece) > WIDTH:
            yield line
            line = indent + piece
        else:
            line += (" " if i > 0 else "") + piece
    yield line


def _arguments(item: str) -> list[str]:
    """A long call, cut after its arguments."""
    depth, parts = 0, [""]
    for token in _TOKEN.findall(item):
        depth += (token == "(") - (token == ")")
        parts[-1] += token
        if token == "," and depth == 1:
            parts.append("")
    return [part.strip() for part in parts]


def _named_once(item: str) -> str:
    return item.partition(" AS ")[0] if _SAME.fullmatch(item) else item


def _tidy(text: str) -> str:
    """A short query on one line: `x AS x` is said once."""
    return re.sub(r"(?<=[ ,(])(`[^`]+`|\w+) AS \1(?=,| FROM)", r"\1", text)
