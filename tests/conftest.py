"""What all tests share: one Spark session, and how hard the property tests try."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

os.environ.setdefault("NABLA_SYNC", "off")  # read when nabla is imported; tests of syncing bring a machine of their own
# JVMs of other processes live for seconds: compiling less is quicker. The session that tests share has the same options.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData")

from hypothesis import HealthCheck, settings

from nabla.dev.testing.cluster import MASTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

gc.set_threshold(200_000, 50, 100)  # tests make many small trees and few cycles

_SESSIONS: list[SparkSession] = []

LONGEST = (
    "test_tpch.py",
    "test_random_views.py",
    "test_old_lakes.py",
    "test_other_processes.py",
    "test_payload.py",
    "test_recursive_sql.py",
    "test_ended_session.py",
    "test_demo.py",
    "test_bank.py",
    "test_watch.py",
    "test_python_functions.py",
    "test_duckdb_expressions.py",
    "test_fuzz.py",
    "test_papers.py",
)
"""Files whose tests take longest. They come first, so that no process works on one of them while the others have ended."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(scope="session", autouse=True)
def _configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lakes of tests are noted as made by this user, but not in the user's own configuration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        patch.delenv("NABLA_TRUST", raising=False)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that `nabla.open` will find and use, on one core so that tests can run side by side."""
    from nabla.dev.testing.session import quick_session

    master = os.environ.get(MASTER, "local[1]")
    session = quick_session("nabla-tests", {"spark.master": master, "spark.driver.memory": "2g"})
    _SESSIONS.append(session)
    yield session
    _SESSIONS.remove(session)
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def _names_of_a_module_go_with_it() -> Iterator[None]:
    """Lakes show their tables in the session that all tests share. No module finds names that another one left there,
    whatever the order in which they run."""
    from nabla.frontends.spark_sql.session_names import names_of

    yield
    for session in _SESSIONS:
        names_of(session).forget()
        for view in session.sql("SHOW VIEWS").collect():
            session.catalog.dropTempView(view.viewName)
        session.createDataFrame([], "x INT")  # makes it the active session again, whichever a test has used last
