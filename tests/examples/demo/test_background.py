import asyncio
import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt import Priority
from agentrt.errors import EngineFailedError
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.demo import background
from agentrt.examples.demo.background import DIGESTS_AT_ONCE, Waits, measure_waits


class Engine:
    """Answers at once; notes the priority and the text of each request."""

    model_id = "nano"

    def __init__(self, *, fails: bool = False) -> None:
        self.asked: list[tuple[Priority, str]] = []
        self.fails = fails

    async def agenerate(self, messages: Any, *, priority: Priority, **options: Any) -> Any:
        self.asked.append((priority, messages[-1]["content"]))
        await asyncio.sleep(0)
        if self.fails and priority is Priority.PROACTIVE:
            raise EngineFailedError("the engine stopped. Open the runtime again.")
        return SimpleNamespace(timing=SimpleNamespace(time_to_first_token_s=0.5))


class View:
    def background(self, policy: str, done: int, of: int) -> None: ...


def measured(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Waits:
    monkeypatch.setattr(background, "_PAUSE_S", 0.01)
    write_sample_data(folder, dt.date(2026, 11, 18))
    data = PersonalData.open(folder)
    try:
        return asyncio.run(measure_waits(engine, data, ["What?", "When?"], "fcfs", View()))  # type: ignore
    finally:
        data.close()


def test_questions_are_reactive_and_digests_are_background_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    waits = measured(engine, tmp_path / "data", monkeypatch)
    assert waits.first_token_s == (0.5, 0.5)
    assert waits.digests >= DIGESTS_AT_ONCE
    reactive = [text for priority, text in engine.asked if priority is Priority.REACTIVE]
    assert reactive == ["What?", "What?", "When?"]  # the first one fills the prefix cache
    digests = [text for priority, text in engine.asked if priority is Priority.PROACTIVE]
    assert len(set(digests[:3])) == 3
    assert "Roof repair" in digests[0]


def test_a_digest_that_fails_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineFailedError, match="the engine stopped"):
        measured(Engine(fails=True), tmp_path / "data", monkeypatch)
