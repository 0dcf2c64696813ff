"""The lakes that the console's tests share."""

from __future__ import annotations

import pytest
from console_lakes import make_hostile, unpack

import nabla


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> nabla.Lake:
    return nabla.open(unpack(tmp_path_factory.mktemp("kept")))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> nabla.Lake:
    return nabla.open(make_hostile(tmp_path_factory.mktemp("hostile")))
