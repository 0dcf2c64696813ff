"""What a user sees when something is wrong: a code, what and where it is, and what to do about it."""

from __future__ import annotations


class NablaError(Exception):
    """Base of all errors that Nabla raises on purpose. The lake is as it was before the call."""

    def __init__(self, code: str, message: str, *, place: str = "", remedy: str = "") -> None:
        self.code = code
        self.message = message
        self.place = place
        self.remedy = remedy
        where = f" ({place})" if place else ""
        todo = f" {remedy}" if remedy else ""
        super().__init__(f"{code}: {message}{where}.{todo}")


def wrong_argument(name: str, value: object, wanted: str) -> NablaError:
    """The error for an argument of a type that a function does not take."""
    return NablaError(
        "NABLA_ARGUMENT",
        f"{name} cannot be {'None' if value is None else f'a {type(value).__name__}'}",
        place=f"{name}=",
        remedy=f"Pass {wanted}.",
    )


class MachineFault(NablaError, OSError):
    """The machine failed: a full disk, a missing permission, a damaged file. It is an OSError, too, so that code which can do
    without the file goes on, as after any other error of the operating system."""


class MissingFile(MachineFault, FileNotFoundError):
    """A file that should be there is not."""


class Conflict(NablaError):
    """Somebody else committed first, and the work cannot be repeated on top of theirs."""


class NotIncremental(NablaError):
    """Strict mode met a view that has no rule for the way its sources changed."""


class Mismatch(NablaError):
    """A view does not equal its query. `rows` are the differing rows as (row, copies in view, copies in query)."""

    def __init__(
        self, code: str, message: str, *, rows: tuple[object, ...] = (), place: str = "", remedy: str = ""
    ) -> None:
        super().__init__(code, message, place=place, remedy=remedy)
        self.rows = rows
