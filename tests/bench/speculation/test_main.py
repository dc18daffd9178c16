"""The speculation bench measures the real models, and its arithmetic is Eq. 1's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.bench.common.parts import SpeculationPart
from agentrt.bench.speculation.agent_runs import AgentRun
from agentrt.bench.speculation.main import run
from agentrt.bench.speculation.nano import Setting, measure_pair, nano_figures, slowdown_pct
from agentrt.bench.speculation.tasks import REQUESTS, TimedTools
from agentrt.reports.report import CallReport, TurnReport
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator
from agentrt.testing import run_in_virtual_time
from agentrt.tools.speculable import speculable_tool

pytestmark = pytest.mark.bench


CALL = CallReport(tool="look", hit=True, tool_s=1.0, waited_s=0.0, saved_s=1.0, draft_s=0.2)
TURN = TurnReport(turn=1, calls=(CALL, CALL.model_copy(update={"hit": False})))


def agent_run(seconds: float, answer: str = "done") -> AgentRun:
    return AgentRun(seconds, (("ai", answer),), (1.0,), 2, (10, 5))


def setting(
    speculative_s: float = 8.0, answer: str = "done", turns: Sequence[TurnReport] = (TURN,)
) -> Setting:
    pair = agent_run(10.0), agent_run(speculative_s, answer)
    return Setting(1.0, [[pair]], turns, [1.0])


def test_figures_add_up_over_the_settings() -> None:
    figures = nano_figures([setting(), setting(10.0, "else", turns=())])
    assert figures["time_saved_pct"] == pytest.approx(10.0)
    # Eq. 1 saves half of a turn's 2.0 - 1.2 seconds in one setting and nothing in the other.
    assert figures["model_optimum_pct"] == pytest.approx(100 * 0.5 * 0.8 / 20)
    assert figures["claim_rate"] == 0.25
    assert (setting().equal, setting(answer="else").equal) == (1, 0)
    assert slowdown_pct([setting(10.5), setting(9.9)]) == pytest.approx(2.0)


def test_a_model_that_calls_no_tools_gives_figures_too() -> None:
    idle = setting(10.0, turns=())
    assert nano_figures([idle]) == {"time_saved_pct": 0.0, "model_optimum_pct": 0.0, "claim_rate": 0.0}


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
        model = ChatAgentRT(runtime=runtime, max_tokens=64)
        draft = LocalSpeculator(DRAFT_DIRECTORY, threads=1)
        settings = asyncio.run(measure_pair(model, draft, REQUESTS[:1], 2, messages.append))
    assert [one.equal for one in settings] == [2, 2, 2]
    assert 0.0 <= nano_figures(settings)["claim_rate"] <= 1.0
    assert [one.ratio for one in settings] == [0.5, 1.0, 2.0]
    assert all(len(one.pairs) == 2 and one.tool_s for one in settings)
    assert messages[0] == "warming up"


def test_a_part_gives_its_own_figures_only() -> None:
    parts = [SpeculationPart.OVERHEAD]
    report = run(quick=True, workloads=None, progress=lambda line: None, parts=parts)
    assert "sdk_overhead_claimed_turn_ms_p50" in report.figures
    assert not {"time_saved_pct", "model_attainment", "transcripts_equal"} & report.figures.keys()
