"""Every exported metric is explained in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

PAGE = Path(__file__).parents[4] / "docs/how-to/prometheus.md"


def test_every_metric_is_explained(http: httpx.Client) -> None:
    named = re.findall(r"^# HELP (agentrt_\w+)", http.get("/metrics").text, re.MULTILINE)
    exported = {
        name for name in named if not name.endswith("_created")
    }  # the time of a counter's first value
    explained = set(re.findall(r"`(agentrt_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert exported
    assert exported <= explained
