"""The two runs of the picture in the README, on the demonstration model."""

from __future__ import annotations

import asyncio

import pytest

from agentrt.bench.speculation.one_run import run

pytestmark = [pytest.mark.bench, pytest.mark.real_model]


def test_both_runs_make_the_same_calls() -> None:
    plain = asyncio.run(run("nano", "off", tool_s=0.01))
    speculating = asyncio.run(run("nano", "on", tool_s=0.01))
    tools = [("search_web",), ("read_page",), ("get_weather",)]
    assert [turn.tools for turn in plain.turns] == tools
    assert [turn.tools for turn in speculating.turns] == tools
    assert (plain.total.claims, plain.total.misses) == (0, 3)
    assert speculating.total.claims + speculating.total.misses == 3
