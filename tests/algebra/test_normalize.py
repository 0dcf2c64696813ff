"""Two spellings of one thing are one tree, read without Spark."""

from __future__ import annotations

import re

import pytest
from spellings import COLUMNS, DIFFERENT, SAME

from nabla.algebra.expressions import Expr
from nabla.algebra.normalize import normalize
from nabla.algebra.parse import parse

TYPES = {name: (type_, True) for name, type_ in COLUMNS.items()}
# A literal, or a column that stands alone: neither a function nor part of another word.
_NAME = re.compile(r"('(?:[^'\\]|\\.)*'|\"[^\"]*\")|\b([ilnfsdb])\b(?!\()")


def tree(text: str) -> Expr:
    return parse(_NAME.sub(lambda m: m[1] or f"`{m[2]}`", text), TYPES)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_expression_are_one_tree(one: str, other: str) -> None:
    assert tree(one) == tree(other)
    assert tree(one).sql == tree(other).sql


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_expressions_that_differ_are_different_trees(one: str, other: str) -> None:
    assert tree(one) != tree(other)


@pytest.mark.parametrize("text", sorted({text for pair in SAME + DIFFERENT for text in pair}))
def test_a_normal_form_stays_as_it_is(text: str) -> None:
    assert normalize(tree(text)) == tree(text)


@pytest.mark.parametrize("text", sorted({text for pair in SAME + DIFFERENT for text in pair}))
def test_the_text_of_a_normal_form_is_read_as_itself(text: str) -> None:
    assert parse(tree(text).sql, TYPES) == tree(text)


def test_there_are_fifty_pairs() -> None:
    assert len(set(SAME)) >= 50
