"""A view means what it meant when it was made, whatever the settings of the session that refreshes or verifies it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from comparing import bag
from pyspark.sql import SparkSession

import nabla
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, whose settings no other test sees."""
    made = spark.newSession()
    made.conf.set(ZONE, "Asia/Tokyo")
    return made


def test_a_view_keeps_the_settings_under_which_it_was_made(
    tmp_path: Path, session: SparkSession, spark: SparkSession
) -> None:
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    lake = nabla.open(tmp_path / "lake", spark=session)
    evening = datetime.datetime(2024, 1, 1, 20, tzinfo=datetime.UTC)
    lake.create_table("t", schema="id INT, at TIMESTAMP, x INT", data=[(1, evening, 2**31 - 1)])
    lake.create_view("days", "SELECT id, CAST(at AS DATE) AS day, x + 1 AS y, map(x, 1, x, id) AS m FROM t")
    lake.create_view("per_day", "SELECT to_date(at) AS day, COUNT(*) AS n FROM t GROUP BY to_date(at)")
    assert bag(lake.read("per_day")) == {(datetime.date(2024, 1, 2), 1): 1}
    session.conf.set(ZONE, "America/Los_Angeles")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.unset("spark.sql.mapKeyDedupPolicy")
    _insert_and_check(lake, 2, evening)
    other = spark.newSession()
    other.conf.set(ZONE, "America/Los_Angeles")
    _insert_and_check(nabla.open(lake.path, spark=other), 3, evening)


def _insert_and_check(lake: Lake, number: int, moment: datetime.datetime) -> None:
    with lake.transaction() as tx:
        tx.insert("t", [(number, moment, 2**31 - 1)])
    lake.refresh(mode="incremental")
    lake.verify()
    day = datetime.date(2024, 1, 2)  # in Tokyo
    assert bag(lake.read("per_day")) == {(day, number): 1}
    assert bag(lake.read("days")) == {(i, day, -(2**31), ((2**31 - 1, i),)): 1 for i in range(1, number + 1)}
    lake.refresh(mode="full")
    assert bag(lake.read("per_day")) == {(day, number): 1}


def test_a_view_keeps_the_values_of_the_variables_in_its_text(tmp_path: Path, session: SparkSession) -> None:
    session.conf.set("my.limit", "2")
    lake = nabla.open(tmp_path / "lake", spark=session)
    lake.create_table("t", schema="id INT, s STRING", data=[(1, "a"), (2, "${my.limit}")])
    lake.create_view("few", "SELECT id, '${my.limit}' AS most FROM t WHERE id < ${my.limit}")
    lake.create_view("opaque", "SELECT id, '${my.limit}' AS most FROM t TABLESAMPLE (100 PERCENT)")
    lake.create_view("literal", "SELECT id, concat('$', '{my.limit}') = s AS same FROM t")
    lake.create_view("joined", "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.s = b.s")
    session.conf.set("my.limit", "3")
    with lake.transaction() as tx:
        tx.insert("t", [(0, "${my.limit}")])
    lake.refresh(mode="incremental")
    lake.verify()
    assert bag(lake.read("few")) == {(1, "2"): 1, (0, "2"): 1}
    assert bag(lake.read("opaque")) == {(i, "2"): 1 for i in range(3)}
    assert bag(lake.read("literal")) == {(0, True): 1, (1, False): 1, (2, True): 1}
    assert bag(lake.read("joined")) == {(1, 1): 1, (0, 0): 1, (0, 2): 1, (2, 0): 1, (2, 2): 1}


def test_without_ansi_mode_a_sum_that_overflows_is_null_until_it_fits_again(
    tmp_path: Path, session: SparkSession
) -> None:
    session.conf.set("spark.sql.ansi.enabled", "false")
    lake = nabla.open(tmp_path / "lake", spark=session)
    nines = Decimal("9" * 38)
    lake.create_table("t", schema="id INT, x DECIMAL(38,0), n BIGINT", data=[(1, Decimal(5), 5)])
    lake.create_view("v", "SELECT SUM(x) AS total, SUM(n) AS wrapped FROM t")
    lake.create_view("small", "SELECT id FROM t WHERE n + 1 < 5")
    lake.create_rules("r", "summed(sum(X)) :- t(_, X, _).")
    for change, total, wrapped in (
        ([(2, nines, 2**63 - 1)], None, 4 - 2**63),
        ([(3, nines, 1)], None, 5 - 2**63),
        ("id = 2", None, 6),
        ("id = 3", Decimal(5), 5),
    ):
        with lake.transaction() as tx:
            tx.delete("t", where=change) if isinstance(change, str) else tx.insert("t", change)
        assert lake.refresh(mode="strict")["v"].mode == "incremental"
        lake.verify()
        assert [tuple(row) for row in lake.read("v").collect()] == [(total, wrapped)]
        assert [row[0] for row in lake.read("summed").collect()] == [total]
    assert lake.changes("small").where("id = 2").count() == 2  # its number wrapped around while it was there


def test_the_date_changes_in_the_time_zone_in_which_the_view_was_made(
    tmp_path: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nabla.algebra.clock import Instant

    noon = datetime.datetime(
        2024, 1, 1, 12, tzinfo=datetime.UTC
    )  # the second of January begins in Tokyo three hours later
    clock = [noon]
    monkeypatch.setattr(Instant, "now", classmethod(lambda cls, zone: cls(int(clock[0].timestamp()) * 1_000_000, zone)))
    lake = nabla.open(tmp_path / "lake", spark=session)
    lake.create_table("t", schema="day DATE", data=[(datetime.date(2024, 1, 1),), (datetime.date(2024, 1, 2),)])
    lake.create_view("today", "SELECT day FROM t WHERE day = current_date()")
    session.conf.set(ZONE, "America/Los_Angeles")
    clock[0] = noon + datetime.timedelta(hours=4)
    lake.refresh(mode="strict")
    lake.verify()
    assert bag(lake.read("today")) == {(datetime.date(2024, 1, 2),): 1}


def test_views_that_change_by_themselves_cannot_be_compared_and_verify_says_why(lake: Lake) -> None:
    lake.create_table("t", schema="id INT", data=[(i,) for i in range(20)])
    lake.create_view("luck", "SELECT id, rand() AS r FROM t")
    lake.create_view("when", "SELECT id, current_timestamp() AS at FROM t")
    lake.create_view("some", "SELECT id FROM t TABLESAMPLE (50 PERCENT)")
    lake.create_view("all", "SELECT id FROM t WHERE id > 3")
    with lake.transaction() as tx:
        tx.insert("t", [(100,)])
    lake.refresh()
    report = lake.verify()
    assert report["luck"].verdict == "not comparable"
    assert "NABLA_NONDETERMINISTIC" in report["luck"].reason
    assert report["some"].verdict == "not comparable"
    assert "Sample" in report["some"].reason
    assert {one.verdict for one in (report["all"], report["when"])} == {"exact"}
    assert [one.name for one in report.not_comparable] == ["luck", "some"]
