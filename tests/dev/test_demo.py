"""The demo, on a smaller shop."""

from __future__ import annotations

from pathlib import Path

import pytest

from nabla.dev.demo import shop
from nabla.dev.demo.run import run_demo
from nabla.errors import NablaError

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_the_demo_maintains_every_view_and_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = run_demo(tmp_path / "shop", small=True)
    first, *_, last = results
    assert [view.view for view in first.views] == list(shop.VIEWS)
    assert next(view for view in first.views if view.view == "order_totals").inserted == 60
    assert {view.mode for view in last.views} == {"skip"}
    assert all(view.recompute > 0 for view in first.views)
    assert "every view equals its query" in capsys.readouterr().out
    with pytest.raises(NablaError, match="NABLA_FOLDER_EXISTS"):
        run_demo(tmp_path / "shop")
