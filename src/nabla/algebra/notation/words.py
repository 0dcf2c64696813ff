"""Numbers and lists as parts of a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def list_in_words(names: Sequence[str], word: str = "and") -> str:
    """`a, b and c`."""
    return f"{', '.join(names[:-1])} {word} {names[-1]}" if len(names) > 1 else "".join(names)


def plural(count: int, what: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
