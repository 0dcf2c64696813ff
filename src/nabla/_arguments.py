"""Arguments of public functions, checked against their type hints: who passes None for a name hears so, with a code.

A wrong number of arguments stays Python's TypeError. What a value says, such as a name that nothing has, is checked by those
who know.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from nabla.errors import wrong_argument

T = TypeVar("T", bound=Callable[..., Any])


def check_arguments(thing: T) -> T:
    """Decorator for a function, or for a class with public methods, whose arguments are to be checked."""
    if not inspect.isclass(thing):
        return cast(T, _checking(thing))
    for name, member in vars(thing).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(thing, name, _checking(member))
    return thing


def _checking(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:  # only now: a hint may name what is defined further down
        return get_type_hints(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint, kind = hints().get(name, Any), signature.parameters[name].kind
            values = (
                value
                if kind is inspect.Parameter.VAR_POSITIONAL
                else value.values()
                if kind is inspect.Parameter.VAR_KEYWORD
                else (value,)
            )
            for one in values:
                if not accepts(hint, one):
                    raise wrong_argument(name, one, describe(hint))
        return function(*args, **kwargs)

    return checked


def accepts(hint: Any, value: object) -> bool:
    """Whether a value is of the type of a hint. A truth value is no number, and a text is no sequence of texts."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(accepts(one, value) for one in inner)
    if origin is Literal:
        return isinstance(value, tuple({type(one) for one in inner}))
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(accepts(inner[0], one) for one in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            accepts(inner[0], key) and accepts(inner[1], one) for key, one in value.items()
        )
    if origin is Callable:
        return callable(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def describe(hint: Any) -> str:
    """The values that a hint allows, in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(describe(one) for one in inner)
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is Sequence:
        return f"a list of {describe(inner[0])}"
    if origin is Mapping:
        return f"a dict from {describe(inner[0])} to {describe(inner[1])}"
    if origin is Callable:
        return "a function"
    if origin is os.PathLike:
        return "a path"
    words = {str: "text", bool: "True or False", int: "a whole number", NoneType: "None"}
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")
