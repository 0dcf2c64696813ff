"""Notes of `explain` about a nested view: its operators, and the form of the equation by which each is maintained."""

from __future__ import annotations

from nabla.frontends.nested import language
from nabla.frontends.nested.conditions import condition
from nabla.frontends.nested.equations import EQUATIONS
from nabla.frontends.nested.language import Binary, Nested
from nabla.frontends.nested.level_equations import LEVEL_EQUATIONS
from nabla.frontends.nested.levels import Path
from nabla.frontends.nested.meaning import Sources, meetings_of, path_of, schema_of

_SYMBOLS: dict[type[Nested], str] = {
    language.Expand: "η",
    language.Project: "π̂",
    language.Select: "σ̂",
    language.Intersect: "⊙",
    language.Join: "⋈",
    language.Union: "⊕",
    language.Difference: "⊖",
}
_UNARY = ("η", "π̂", "σ̂")


def forms(expression: Nested, sources: Sources) -> tuple[str, ...]:
    """A line for each operator, inside out. Nabla maintains all of them by the implementation form: it deletes the rows
    with keys in K and inserts their new versions. If the paper has a simpler form, the line names it."""
    return tuple(_form(e, sources) for e in expression.walk() if type(e) in _SYMBOLS)


def _form(e: Nested, sources: Sources) -> str:
    path = path_of(e, sources) if isinstance(e, language.Project | language.Expand | Binary) else ()
    symbol = _SYMBOLS[type(e)]
    op = f"{symbol}@{'.'.join(path)}" if path else symbol
    if symbol in _UNARY:
        law = f"{op}(r±δ) = [{op}(r)]∉K ⊕ {op}([r]∈K ± δ)"
    elif path:
        law = f"(r±δ) {op} s = [r {op} s]∉K ⊕ (([r]∈K ± δ) {op} s), {_right_law(symbol, op, path)}"
    else:
        law = f"(r±δ){op}s = [r{op}s]∉K ⊕ (([r]∈K ± δ){op}[s]∈K)"
    needs_meeting = isinstance(e, language.Join) and bool(e.on)
    signs = [] if needs_meeting else _standard_signs(symbol, bool(path))
    also = f"; for {' and '.join(signs)} it equals the standard form" if signs else ""
    return f"{op}[{_what(e, sources)}] implementation form: {law}{also}{_LIMITED.get(symbol, '')}"


def _right_law(symbol: str, op: str, path: Path) -> str:
    keys = "all keys of r" if symbol == "⊕" else f"the keys of r that meet δ at {'.'.join(path)}"
    return f"r {op} (s±δ) = [r {op} s]∉K ⊕ ([r]∈K {op} (s±δ)) with K {keys}"


_NEW_KEYS = "if δ has only new keys, the limited standard form is used: rows are added, and none is looked for"
_LIMITED: dict[str, str] = {
    "σ̂": f"; {_NEW_KEYS} (lemma 4.4)",
    "π̂": f"; {_NEW_KEYS}; a ⊖ needs no source, because the change has its rows whole (section 4.6)",
    "⊙": f"; {_NEW_KEYS} (lemma 4.6)",
    "⋈": f"; {_NEW_KEYS} (lemma 4.7)",
}


def _standard_signs(symbol: str, below: bool) -> list[str]:
    """The signs of updates of r for which the standard form holds."""
    if below and symbol not in _UNARY:
        return [x.sign for x in LEVEL_EQUATIONS if (x.operator, x.operand, x.form) == (symbol, "r", "standard")]
    return [x.sign for x in EQUATIONS if x.operator == symbol and x.form == "standard"]


def _what(e: Nested, sources: Sources) -> str:
    if isinstance(e, language.Select):
        return condition(e.selection, schema_of(e.input, sources)).text
    if isinstance(e, language.Join) and e.on:
        met = ", ".join(f"{m.ours}* meets {m.theirs}* in {', '.join(m.common)}" for m in meetings_of(e, sources))
        return f"{schema_of(e, sources).text}, where {met}"
    return schema_of(e, sources).text
