"""The checker of histories finds each of Adya's anomalies in a history that has it, and none in one that has none."""

from __future__ import annotations

import pytest

from nabla.dev.testing.isolation.anomalies import find_anomalies
from nabla.dev.testing.isolation.history import Operation, Outcome, Transaction, add, append, read_list, read_set


def done(name: str, *operations: Operation, outcome: Outcome = "committed", at: float = 0.0) -> Transaction:
    """A transaction at the same time as all others, unless a time is given."""
    return Transaction(name, operations, outcome, at, at + 10 if at == 0 else at + 0.5)


def kinds(*history: Transaction) -> set[str]:
    return {anomaly.kind for anomaly in find_anomalies(history)}


SERIAL = (
    done("t1", append("x", 1), append("y", 2), add("s", 3), at=1),
    done("t2", read_list("x", 1), append("x", 4), read_list("x", 1, 4), at=2),
    done("t3", read_set("s", 3), add("s", 5), add("s", 6), read_set("s", 3, 5, 6), at=3),
    done("t4", read_list("x", 1, 4), read_list("y", 2), read_set("s", 3, 5, 6), at=4),
)


def test_a_serial_history_has_no_anomaly() -> None:
    assert kinds(*SERIAL) == set()


def test_transactions_side_by_side_in_some_order_are_no_anomaly() -> None:
    assert (
        kinds(
            done("t1", append("x", 1), append("y", 2)),
            done("t2", read_list("x"), read_list("y")),
            done("t3", append("x", 3)),
        )
        == set()
    )


ANOMALIES = {
    "G0": (
        done("t1", append("x", 1), append("y", 1)),
        done("t2", append("x", 2), append("y", 2)),
        done("t3", read_list("x", 1, 2), read_list("y", 2, 1)),
    ),
    "G1a": (done("t1", append("x", 1), outcome="aborted"), done("t2", read_list("x", 1))),
    "G1b": (done("t1", append("x", 1), append("x", 2)), done("t2", read_list("x", 1))),
    "G1c": (
        done("t1", append("x", 1), read_list("y", 2)),
        done("t2", append("y", 2), read_list("x", 1)),
    ),
    "G-single": (  # read skew
        done("t1", append("x", 1), append("y", 1)),
        done("t2", read_list("x", 1), read_list("y")),
        done("t3", read_list("y", 1)),
    ),
    "G2-item": (  # write skew
        done("t1", read_list("x"), append("y", 1)),
        done("t2", read_list("y"), append("x", 2)),
        done("t3", read_list("x", 2), read_list("y", 1)),
    ),
    "internal": (done("t1", append("x", 1), read_list("x")),),
    "duplicate": (done("t1", append("x", 1)), done("t2", read_list("x", 1, 1))),
    "incompatible order": (
        done("t1", append("x", 1)),
        done("t2", append("x", 2)),
        done("t3", read_list("x", 1)),
        done("t4", read_list("x", 2)),
    ),
}


@pytest.mark.parametrize("kind", ANOMALIES)
def test_an_anomaly_is_found(kind: str) -> None:
    assert kind in kinds(*ANOMALIES[kind])


def test_a_lost_update_is_a_cycle_with_one_rw() -> None:
    first = done("t1", read_list("x"), append("x", 1))
    second = done("t2", read_list("x"), append("x", 2))
    assert "G-single" in kinds(first, second, done("t3", read_list("x", 1, 2)))


def test_write_skew_is_found_in_sets_too() -> None:
    assert kinds(done("t1", read_set("x"), add("y", 1)), done("t2", read_set("y"), add("x", 2))) == {"G2-item"}


def test_a_read_skew_over_sets_is_found() -> None:
    writer = done("t1", add("x", 1), add("y", 2))
    assert kinds(writer, done("t2", read_set("x", 1), read_set("y"))) == {"G-single"}


def test_a_stale_read_breaks_real_time_only() -> None:
    writer = done("t1", append("x", 1), at=1)
    assert kinds(writer, done("t2", read_list("x"), at=2), done("t3", read_list("x", 1), at=3)) == {"G-single-realtime"}


def test_an_acknowledged_write_that_is_lost_is_found() -> None:
    assert kinds(done("t1", add("s", 1), at=1), done("t2", read_set("s"), at=2)) == {"G-single-realtime"}


def test_a_write_of_unknown_outcome_may_be_there_or_not() -> None:
    unknown = done("t1", append("x", 1), outcome="unknown", at=1)
    assert kinds(unknown, done("t2", read_list("x"), at=2)) == set()
    assert kinds(unknown, done("t2", read_list("x", 1), at=2)) == set()


def test_a_history_survives_its_file() -> None:
    assert tuple(Transaction.from_json(t.to_json()) for t in SERIAL) == SERIAL
