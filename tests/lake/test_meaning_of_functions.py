"""Python functions are compared by what they do, and nothing of them runs."""

from __future__ import annotations

import base64
import sys

import pytest
from pyspark import cloudpickle

from nabla.frontends.spark_sql.python_udfs import PythonFunction
from nabla.lake.plan.python_code import code_of


def stored(source: str, name: str = "f") -> PythonFunction:
    """The function that a text defines, as a view keeps it."""
    made: dict[str, object] = {"__name__": "somewhere"}
    exec(compile(source, "file.py", "exec"), made)
    code = base64.b64encode(cloudpickle.dumps((made[name], "bigint"))).decode()
    return PythonFunction(code, '"long"', 100, True, ".".join(map(str, sys.version_info[:2])))


TEXT = "N = 3\ndef g(x):\n    return x + N\ndef f(x, y=2):\n    return [g(z) for z in (x, y)] if x else f(y)\n"


def test_a_function_that_has_moved_is_the_same() -> None:
    assert stored(TEXT).code != stored(f"\n# a comment\n\n{TEXT}").code
    assert code_of(stored(TEXT)) == code_of(stored(f"\n# a comment\n\n{TEXT}"))


@pytest.mark.parametrize(
    ("old", "new"), [("x + N", "x - N"), ("N = 3", "N = 4"), ("y=2", "y=1"), ("f(y)", "g(y)"), ("(x, y)", "(y, x)")]
)
def test_a_function_that_does_something_else_is_another_one(old: str, new: str) -> None:
    assert old in TEXT
    assert code_of(stored(TEXT)) != code_of(stored(TEXT.replace(old, new)))


def test_nothing_of_a_function_runs_when_it_is_compared() -> None:
    class Loud:
        def __reduce__(self) -> tuple[object, ...]:
            return print, ("it ran",)

    code = base64.b64encode(cloudpickle.dumps(Loud())).decode()
    function = PythonFunction(code, '"long"', 100, True, "3.11")
    assert code_of(function) != code_of(stored(TEXT))


def test_bytes_that_are_no_pickle_are_compared_as_they_are() -> None:
    one, other = (PythonFunction(base64.b64encode(text).decode(), "", 0, True, "") for text in (b"a", b"b"))
    assert code_of(one) != code_of(other)
