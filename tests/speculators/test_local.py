"""The local speculator with the real nano draft model."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agentrt import DraftRequest, ToolCall
from agentrt.drafts import DraftCost, shares_cores
from agentrt.errors import ConfigurationError, ModelFormatError, ModelNotFoundError, PromptTooLongError
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator, Speculator
from tests.patience import PATIENCE_S

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Current weather in a city.", "parameters": CITY},
    }
]
MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is the weather in Oslo?"},
]


@pytest.fixture(scope="module")
def speculator() -> LocalSpeculator:
    return LocalSpeculator(DRAFT_DIRECTORY, threads=1)


def drafts(speculator: LocalSpeculator, messages: list[Any], samples: int = 1) -> list[ToolCall]:
    async def collect() -> list[ToolCall]:
        return [call async for call in speculator.drafts(DraftRequest(messages, TOOLS, samples))]

    return asyncio.run(collect())


def test_it_predicts_the_call(speculator: LocalSpeculator) -> None:
    assert isinstance(speculator, Speculator)
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "get_weather", "arguments": {"city": "Oslo"}}', 1),
        ('```json\n{\n  "name": "get_weather",\n  "arguments": {"city": "Oslo"}\n}\n```', 1),
        ('[get_weather(city="Oslo")]', 1),
        ('{"name": "get_news", "arguments": {"city": "Oslo"}}', 0),
        ("Do you mean get_weather?", 0),
    ],
)
def test_calls_of_offered_tools_are_read_in_other_formats(
    speculator: LocalSpeculator, monkeypatch: pytest.MonkeyPatch, text: str, calls: int
) -> None:
    written = speculator._tokenizer.encode(text, add_special_tokens=False).input_ids.data[0].tolist()
    end = speculator._pipeline.get_generation_config().eos_token_id
    monkeypatch.setattr(speculator, "_decode", lambda *arguments: [*written, end])
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})] * calls


def test_the_greedy_draft_is_among_any_number_of_samples(speculator: LocalSpeculator) -> None:
    (greedy,) = drafts(speculator, MESSAGES)
    sampled = drafts(speculator, MESSAGES, samples=5)
    assert greedy in sampled
    assert 1 <= len(sampled) <= 5


def test_its_own_number_of_samples_wins() -> None:
    own = LocalSpeculator(DRAFT_DIRECTORY, samples=4, temperature=0.01, threads=1)
    assert len(drafts(own, MESSAGES, samples=1)) == 4


def test_it_can_say_that_it_does_not_slow_the_main_model_down(speculator: LocalSpeculator) -> None:
    assert shares_cores(speculator)
    assert not shares_cores(LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False))


def test_a_history_with_calls_and_content_parts_is_understood(speculator: LocalSpeculator) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": json.dumps({"city": "Oslo"})},
    }
    result = [{"type": "text", "text": '{"city": "Oslo", "temperature": 12, "sky": "light rain"}'}]
    history: list[Any] = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]
    assert drafts(speculator, history) == []  # it expects an answer now, not a call


class Held:
    """Holds the draft up in its first token until it is told to go on; counts tokens and generations."""

    def __init__(self, speculator: LocalSpeculator, monkeypatch: pytest.MonkeyPatch) -> None:
        held = self
        self.generating, self.go_on = threading.Event(), threading.Event()
        self.tokens = self.generations = 0
        pipeline = speculator._pipeline

        class Stopper(speculator._stopper):  # type: ignore[misc, name-defined]
            def write(self, token: Any) -> Any:
                held.generating.set()
                assert held.go_on.wait(PATIENCE_S)
                held.tokens += 1
                return super().write(token)

        class Pipeline:
            def __getattr__(self, name: str) -> Any:
                return getattr(pipeline, name)

            def generate(self, *args: Any) -> Any:
                held.generations += 1
                return pipeline.generate(*args)

        monkeypatch.setattr(speculator, "_is_quick", False)
        monkeypatch.setattr(speculator, "_stopper", Stopper)
        monkeypatch.setattr(speculator, "_pipeline", Pipeline())


@pytest.fixture
def held(speculator: LocalSpeculator, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(speculator, monkeypatch)


async def abandon(speculator: LocalSpeculator, once: threading.Event, **request: Any) -> None:
    """Ask for drafts, and cancel that once the event is set."""

    async def ask() -> None:
        async for _ in speculator.drafts(DraftRequest(MESSAGES, TOOLS, 3, **request)):
            raise AssertionError("there can be no draft yet")

    task = asyncio.create_task(ask())
    await asyncio.to_thread(once.wait, PATIENCE_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def join_drafts(speculator: LocalSpeculator) -> None:
    for thread in threading.enumerate():
        if thread.name == f"agentrt {speculator.name}":
            thread.join(PATIENCE_S)


def test_it_stops_within_a_token_of_being_cancelled(speculator: LocalSpeculator, held: Held) -> None:
    asyncio.run(abandon(speculator, held.generating))
    held.go_on.set()
    join_drafts(speculator)
    assert (held.tokens, held.generations) == (1, 1)
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_a_draft_that_is_cancelled_while_it_waits_computes_nothing(
    speculator: LocalSpeculator, held: Held
) -> None:
    at_once = threading.Event()
    at_once.set()
    with speculator._busy:
        asyncio.run(abandon(speculator, at_once))
    join_drafts(speculator)
    assert held.generations == 0


def cost_of(speculator: LocalSpeculator, samples: int, *, affordable: bool = True) -> DraftCost:
    spent: list[DraftCost] = []

    async def ask() -> None:
        request = DraftRequest(MESSAGES, TOOLS, samples, spend=spent.append, affords=lambda cost: affordable)
        async for _ in speculator.drafts(request):
            pass

    asyncio.run(ask())
    return sum(spent, DraftCost())


def test_tokens_read_and_written_are_charged(speculator: LocalSpeculator) -> None:
    greedy, three = cost_of(speculator, 1), cost_of(speculator, 3)
    assert greedy.input_tokens == three.input_tokens > 20
    assert 5 < greedy.output_tokens < 100
    assert three.output_tokens > 2 * greedy.output_tokens
    assert cost_of(speculator, 1, affordable=False) == DraftCost()


def test_a_draft_that_is_stopped_has_cost_its_prompt_and_what_it_wrote(
    speculator: LocalSpeculator, held: Held
) -> None:
    spent: list[DraftCost] = []
    asyncio.run(abandon(speculator, held.generating, spend=spent.append))
    assert len(spent) == 1  # the prompt, charged before it was read
    held.go_on.set()
    join_drafts(speculator)
    assert sum(spent, DraftCost()).output_tokens == 1


def test_an_answer_is_neither_written_to_its_end_nor_sampled(speculator: LocalSpeculator, held: Held) -> None:
    held.go_on.set()
    greeting = [MESSAGES[0], {"role": "user", "content": "Hello!"}]
    assert drafts(speculator, greeting, samples=4) == []
    assert held.tokens <= 4
    assert held.generations == 1


@pytest.mark.parametrize("quick", [False, True])
def test_a_quick_model_predicts_the_same_without_inspecting_tokens(
    speculator: LocalSpeculator, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculator, "_is_quick", quick)
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]
    greeting = [MESSAGES[0], {"role": "user", "content": "Hello!"}]
    assert drafts(speculator, greeting, samples=3) == []


@pytest.mark.slow
def test_the_process_ends_in_order_while_a_draft_runs() -> None:
    program = f"""
from agentrt import SpeculationSession, speculable
from agentrt.speculators import LocalSpeculator
@speculable
def get_weather(city: str) -> str:
    return city
speculator = LocalSpeculator({str(DRAFT_DIRECTORY)!r}, threads=1, samples=8)
messages = [{{"role": "user", "content": "What is the weather in Oslo?"}}]
with SpeculationSession([get_weather], [speculator]) as session:
    session.turn(messages, {TOOLS!r})
    session.turn(messages, {TOOLS!r})
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.check
@pytest.mark.slow
def test_the_interpreter_is_free_while_the_model_computes(speculator: LocalSpeculator) -> None:
    # A thread that only counts gets nowhere while another holds the interpreter's lock in one long call.
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1

    settings = speculator._settings(400, drawn=4)
    settings.ignore_eos = True
    prompt = speculator._tokenizer.encode("mail garden lasagne " * 100)
    counter = threading.Thread(target=count)
    counter.start()
    before = counted[0]
    speculator._pipeline.generate(prompt, settings)
    during = counted[0] - before
    stop.set()
    counter.join()
    assert during > 10_000


def test_turns_at_the_same_time_wait_for_each_other(speculator: LocalSpeculator) -> None:
    async def one() -> list[ToolCall]:
        return [call async for call in speculator.drafts(DraftRequest(MESSAGES, TOOLS))]

    async def main() -> list[list[ToolCall]]:
        return await asyncio.gather(*(one() for _ in range(4)))

    assert asyncio.run(main()) == [[ToolCall("get_weather", {"city": "Oslo"})]] * 4


def test_a_prompt_beyond_the_context_is_not_computed(speculator: LocalSpeculator) -> None:
    long = [*MESSAGES[:1], {"role": "user", "content": "word " * 20_000}]
    with pytest.raises(PromptTooLongError, match="2048"):
        drafts(speculator, long)
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_what_cannot_be_opened_raises(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="openvino_model"):
        LocalSpeculator(tmp_path)
    (tmp_path / "openvino_model.xml").write_text("<net/>")
    (tmp_path / "openvino_model.bin").write_bytes(b"")
    with pytest.raises(ModelFormatError, match="Export the model again"):
        LocalSpeculator(tmp_path)
    with pytest.raises(ConfigurationError, match="samples"):
        LocalSpeculator(DRAFT_DIRECTORY, samples=0)
