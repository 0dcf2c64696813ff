"""Names that Delta can store."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nabla.storage.names import RESERVED, safe


@given(st.lists(st.text(alphabet="aA_ (.=\n", max_size=4)))
def test_stored_names_are_good_and_distinct(names: list[str]) -> None:
    stored = safe(names)
    assert len({name.casefold() for name in stored} - RESERVED) == len(names)
    assert all(name and not set(name) & set(" ,;{}()\n\t=") for name in stored)
    assert safe(stored) == stored


def test_good_names_stay_and_come_first() -> None:
    assert safe(["sum(amount)", "sum_amount_", "Größe", "_n", "sum(amount)"]) == (
        "sum_amount__2",
        "sum_amount_",
        "Größe",
        "_n_2",
        "sum_amount__3",
    )
