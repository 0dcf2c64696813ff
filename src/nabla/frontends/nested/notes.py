"""Notes of `explain` about a nested view: its operators, and the form of the equation by which each is maintained."""

from __future__ import annotations

from nabla.frontends.nested import language
from nabla.frontends.nested.conditions import condition
from nabla.frontends.nested.equations import EQUATIONS
from nabla.frontends.nested.language import Nested
from nabla.frontends.nested.meaning import Sources, schema_of

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
    symbol = _SYMBOLS[type(e)]
    if symbol in _UNARY:
        law = f"{symbol}(r±δ) = [{symbol}(r)]∉K ⊕ {symbol}([r]∈K ± δ)"
    else:
        law = f"(r±δ){symbol}s = [r{symbol}s]∉K ⊕ (([r]∈K ± δ){symbol}[s]∈K)"
    simpler = [x for x in EQUATIONS if x.operator == symbol and x.form == "standard"]
    also = f"; for {' and '.join(x.sign for x in simpler)} it equals the standard form" if simpler else ""
    return f"{symbol}[{_what(e, sources)}] implementation form: {law}{also}"


def _what(e: Nested, sources: Sources) -> str:
    if isinstance(e, language.Select):
        return condition(e.selection, schema_of(e.input, sources)).text
    return schema_of(e, sources).text
