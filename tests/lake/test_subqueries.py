"""Subqueries in `where=` and `set=` read the lake as their transaction sees it, which depends on what they read."""

from __future__ import annotations

import pytest

from nabla.errors import Conflict, NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def duty(lake: Lake) -> Lake:
    """Two doctors on duty, in a table each. One of them has to stay."""
    lake.create_table("days", "doctor STRING, on_duty BOOLEAN", data=[("Ada", True)])
    lake.create_table("nights", "doctor STRING, on_duty BOOLEAN", data=[("Ben", True)])
    return lake


def on_duty(lake: Lake) -> list[bool]:
    return [lake.read(table).first().on_duty for table in ("days", "nights")]  # type: ignore[union-attr]


def test_subqueries_see_the_changes_of_their_own_transaction(duty: Lake) -> None:
    with duty.transaction() as tx:
        tx.update("days", set={"on_duty": "false"})
        tx.delete("nights", where="EXISTS (SELECT * FROM days WHERE on_duty)")
        tx.insert("days", [("Cleo", True)])
        tx.update(
            "nights", set={"doctor": "(SELECT max(doctor) FROM Days)"}, where="doctor NOT IN (SELECT doctor FROM days)"
        )
    assert [tuple(row) for row in duty.read("nights").collect()] == [("Cleo", True)]


def test_subqueries_see_the_snapshot_of_their_transaction(duty: Lake) -> None:
    with pytest.raises(Conflict), duty.transaction() as tx:
        tx.read("days")
        with duty.transaction() as other:
            other.update("days", set={"doctor": "'Zoe'"})
        assert duty.spark.table("days").first().doctor == "Zoe"  # type: ignore[union-attr]
        tx.update("nights", set={"doctor": "(SELECT doctor FROM days)"})
        assert tx.read("nights").first().doctor == "Ada"  # type: ignore[union-attr]


def test_two_transactions_that_each_rely_on_the_other_doctor_do_not_both_leave(duty: Lake) -> None:
    with duty.transaction() as first:
        first.update("days", set={"on_duty": "false"}, where="EXISTS (SELECT * FROM nights WHERE on_duty)")
        with duty.transaction() as second:
            second.update("nights", set={"on_duty": "false"}, where="EXISTS (FROM days SELECT * WHERE on_duty)")
    assert on_duty(duty) == [True, False]  # the first came last, looked again, and stayed


def test_a_condition_that_matched_nothing_counts_as_read(duty: Lake) -> None:
    with duty.transaction() as first:
        first.delete("days", where="doctor = 'Zoe'")
        first.insert("nights", [("Zoe", False)])
        with duty.transaction() as second:
            second.delete("nights", where="doctor = 'Zoe'")
            second.insert("days", [("Zoe", False)])
    zoe = [duty.read(table).where("doctor = 'Zoe'").count() for table in ("days", "nights")]
    assert zoe == [0, 1]  # as if the first had come after the second


def test_a_table_that_the_lake_does_not_have_is_unknown_to_subqueries(duty: Lake) -> None:
    with pytest.raises(NablaError, match="NABLA_UNKNOWN_TABLE"), duty.transaction() as tx:
        tx.delete("days", where="EXISTS (SELECT * FROM weeks)")


def test_what_a_subquery_finds_must_fit_its_column(duty: Lake) -> None:
    duty.create_table("sizes", "size INT", data=[(1,)])
    with pytest.raises(NablaError, match=r'NABLA_TYPE_MISMATCH: column "size" cannot take'), duty.transaction() as tx:
        tx.update("sizes", set={"size": "(SELECT count(*) + 0.5 FROM days)"})
