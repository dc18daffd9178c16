"""The speculation bench measures the real models, and its arithmetic is Eq. 1's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentrt.adapters.langchain import ChatAgentRT, speculate
from agentrt.bench.common.parts import SpeculationPart
from agentrt.bench.speculation.main import run
from agentrt.bench.speculation.nano import NanoBench, Setting, nano_figures, nano_table, slowdown_pct
from agentrt.bench.speculation.tasks import REQUESTS, TimedTools
from agentrt.perfmodel import TurnTimes
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator
from agentrt.testing import run_in_virtual_time
from agentrt.tools.speculable import speculable_tool

pytestmark = pytest.mark.bench


def setting(**changed: object) -> Setting:
    values = {
        "ratio": 1.0,
        "plain_s": 10.0,
        "speculative_s": 8.0,
        "times": TurnTimes(generation=1.0, draft=0.2, tool=1.0),
        "turns": 4,
        "calls": 8,
        "claims": 4,
        "wasted": 1,
        "pairs": 8,
        "equal": 8,
        "saved_pcts": (19.0, 20.0, 23.0),
        "slowdown_pct": -20.0,
    }
    return Setting(**{**values, **changed})  # type: ignore[arg-type]


def test_figures_add_up_over_the_settings() -> None:
    figures = nano_figures([setting(), setting(speculative_s=10.0, claims=0, equal=6)])
    assert figures["time_saved_pct"] == pytest.approx(10.0)
    # Eq. 1 saves half of the turns 2.0 - 1.2 seconds each in one setting and nothing in the other.
    assert figures["model_optimum_pct"] == pytest.approx(100 * 0.5 * 4 * 0.8 / 20)
    assert figures["claim_rate"] == 0.25
    assert figures["transcripts_equal"] == 14 / 16
    assert figures["turns"] == 8
    assert nano_table("t", [setting()]).rows[0][9:12] == (20.0, 19.0, 23.0)
    assert slowdown_pct([setting(slowdown_pct=5.0), setting(slowdown_pct=-1.0)]) == pytest.approx(2.0)


def test_a_model_that_calls_no_tools_gives_figures_too() -> None:
    idle = setting(times=None, turns=0, calls=0, claims=0, speculative_s=10.0)
    assert nano_figures([idle]) == {
        "time_saved_pct": 0.0,
        "model_optimum_pct": 0.0,
        "claim_rate": 0.0,
        "transcripts_equal": 1.0,
        "turns": 0.0,
    }
    assert nano_table("t", [idle]).rows[0][1:4] == (None, None, None)


def test_the_tools_wait_and_answer_json() -> None:
    timed = TimedTools()
    tools = {tool.name: tool for tool in timed.tools()}
    assert len(tools) == 10
    assert {name for name, tool in tools.items() if speculable_tool(tool) is None} == {
        "create_note",
        "add_event",
    }
    timed.latency_s = 30.0

    async def use() -> tuple[Any, Any, float]:
        found = json.loads(await tools["search_mail"].ainvoke({"query": "the roof repair"}))
        read = json.loads(await tools["read_mail"].ainvoke({"id": "m99"}))
        return found, read, asyncio.get_running_loop().time()

    found, read, elapsed_s = run_in_virtual_time(use)
    assert found == [{"id": "m12", "from": "Berg Roofing", "subject": "Roof repair"}]
    assert read == {"error": "no mail with id m99"}
    assert elapsed_s == 60.0
    assert len(timed.seconds) == 2


def test_a_small_run_on_the_real_models() -> None:
    messages: list[str] = []
    with LocalRuntime.open("nano", RuntimeConfig(memory_bytes=32 * 2**20, threads=1)) as runtime:
        plain = ChatAgentRT(runtime=runtime, max_tokens=64)
        speculative = speculate(plain, LocalSpeculator(DRAFT_DIRECTORY, threads=1))
        bench = NanoBench(plain, speculative, TimedTools(), REQUESTS[:1])
        settings = asyncio.run(bench.measure(2, messages.append))
    figures = nano_figures(settings)
    assert figures["transcripts_equal"] == 1.0
    assert 0.0 <= figures["claim_rate"] <= 1.0
    assert [one.ratio for one in settings] == [0.5, 1.0, 2.0]
    assert all(one.pairs == 2 and one.plain_s > 0 for one in settings)
    assert messages[0] == "warming up"


def test_a_part_gives_its_own_figures_only() -> None:
    parts = [SpeculationPart.GUARDS, SpeculationPart.OVERHEAD]
    report = run(quick=True, workloads=None, progress=lambda line: None, parts=parts)
    assert {"guard_bypasses", "sdk_overhead_claimed_turn_ms_p50"} <= report.figures.keys()
    assert not {"time_saved_pct", "frameworks_tried", "transcripts_equal"} & report.figures.keys()
    assert len(report.tables) == 2
