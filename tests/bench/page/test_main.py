from __future__ import annotations

import shutil

import pytest

from agentrt.bench.page import browser
from agentrt.bench.page import main as page
from agentrt.errors import ConfigurationError

pytestmark = pytest.mark.bench


@pytest.mark.needs("chromium")
def test_the_bench_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    monkeypatch.setattr(page, "SIZES", {True: page.Size(1.0, 2, 2)})
    told: list[str] = []
    report = page.run(quick=True, workloads=None, progress=told.append)
    assert report.figures["events_per_s_rendered"] > 0
    assert report.figures["ttft_ratio_with_page_open"] > 0
    assert [len(table.rows) for table in report.tables] == [2, 2]
    assert report.tables[0].rows[0][-1] > 0
    assert len(told) == 3


def test_a_machine_without_chromium(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with (
        pytest.raises(ConfigurationError, match="Install your system's package"),
        browser.open_browser("http://x"),
    ):
        pass
