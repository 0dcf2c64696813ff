"""Definitions with colours: SQL, rules and nested expressions as HTML in which every part of the text is escaped."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_KEYWORDS = frozenset(
    word
    for line in (
        "select from where group by having order limit offset join inner left right full outer cross semi anti on using as",
        "and or not in is null exists between like rlike case when then else end union all except intersect distinct with",
        "recursive over partition rows range preceding following unbounded current row filter lateral view explode values",
        "cast interval asc desc nulls first last true false qualify window pivot unpivot for within grouping sets rollup",
        "cube escape any some div",
    )
    for word in line.split()
)
_TOKENS = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign>:-|[⋈⋉▷σπγδω∪∩∸∇Δ□₀₁ᵐ]+)""",
    re.VERBOSE | re.DOTALL,
)


_RULE_TOKENS = re.compile(_TOKENS.pattern.replace("--[^", "%[^", 1), _TOKENS.flags)
"""In rules a comment begins with %, which SQL computes with."""


def highlight(text: str, language: str = "SQL") -> Markup:
    """The text as HTML: keywords, functions, strings, numbers, comments and signs of the algebra in spans of their own."""
    out, end = [], 0
    for token in (_RULE_TOKENS if language == "rules" else _TOKENS).finditer(text):
        out.append(escape(text[end : token.start()]))
        kind = _kind(token, text, language)
        shown = escape(token[0])
        out.append(Markup('<span class="t-{}">{}</span>').format(kind, shown) if kind else shown)
        end = token.end()
    out.append(escape(text[end:]))
    return Markup("").join(out)


def _kind(token: re.Match[str], text: str, language: str) -> str:
    """The class of a token; words that are neither keywords nor functions have none."""
    if token.lastgroup != "word":
        return token.lastgroup or ""
    if language == "algebra":  # its words are names
        return ""
    if token[0].lower() in _KEYWORDS:
        return "keyword"
    return "function" if text[token.end() : token.end() + 1] == "(" else ""
