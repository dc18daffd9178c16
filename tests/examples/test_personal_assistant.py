"""The tools and the agent over real data, driven by a model that follows a script."""

import asyncio
import datetime as dt
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool
from pydantic import Field

from agentrt.examples import personal_assistant
from agentrt.examples.assistant.data import PersonalData, copy_data
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.personal_assistant import (
    ask,
    ask_quietly,
    assistant_agent,
    assistant_tools,
    digest_mail,
)
from agentrt.priority import Priority, current_priority
from agentrt.tools.speculable import speculable_tool

WEDNESDAY = dt.date(2026, 11, 18)
NO_WAIT = Latencies(0, 0, 0)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "data"
    write_sample_data(folder, WEDNESDAY)
    return folder


@pytest.fixture
def data(sample: Path, tmp_path: Path) -> Iterator[PersonalData]:
    copy_data([sample], tmp_path / "data")
    data = PersonalData.open(tmp_path / "data", today=lambda: WEDNESDAY)
    yield data
    data.close()


class Scripted(BaseChatModel):
    """Says what its script says, whatever it is asked; a pair in the script is a tool call."""

    script: list[Any]
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        self.seen.append(messages)
        said = self.script[(len(self.seen) - 1) % len(self.script)]
        if isinstance(said, str):
            message = AIMessage(said)
        else:
            name, arguments = said
            message = AIMessage(
                "", tool_calls=[{"name": name, "args": arguments, "id": f"c{len(self.seen)}"}]
            )
        return ChatResult(generations=[ChatGeneration(message=message)])


def call(data: PersonalData, name: str, **arguments: Any) -> Any:
    """The JSON that a tool answers through the agent."""
    return json.loads(text_of_call(data, name, **arguments))


def tools_over(data: PersonalData, latencies: Latencies = NO_WAIT) -> list[BaseTool]:
    return assistant_tools(data, latencies, web=True)


def text_of_call(data: PersonalData, name: str, **arguments: Any) -> str:
    """What a tool answers through the agent, as the model sees it."""
    messages = run_with(*tools_over(data), script=[(name, arguments), "done"])
    assert [message.type for message in messages] == ["ai", "tool", "ai"]
    assert messages[-1].text == "done"
    return messages[1].text


def run_with(*tools: BaseTool, script: list[Any]) -> list[AnyMessage]:
    return asyncio.run(ask(assistant_agent(Scripted(script=script), tools), [HumanMessage("go")], Recorder()))


def test_results_are_the_json_that_the_model_was_trained_on(data: PersonalData) -> None:
    assert call(data, "search_notes", query="lasagne") == [{"id": "n11", "title": "Lasagne recipe"}]
    assert call(data, "search_notes", query="zeppelin") == []
    assert call(data, "read_note", id="n5")["title"] == "Bread starter"
    assert call(data, "create_note", text="buy candles") == {"saved": "n13"}
    assert call(data, "read_note", id="n13") == {"title": "buy candles", "text": "buy candles"}
    assert call(data, "list_events", date="tomorrow")[0] == {"time": "09:30", "title": "Dentist"}
    added = {"title": "yoga", "date": "Friday", "time": "15:00"}
    assert call(data, "add_event", **added) == {"added": "yoga", "date": "Friday", "time": "15:00"}
    assert call(data, "add_event", **added | {"time": "half six"})["begins"] == "06:30"
    assert {"time": "15:00", "title": "yoga"} in call(data, "list_events", date="on Friday")
    assert call(data, "search_mail", query="roof") == [
        {"id": "m1", "from": "Nadia Berg", "subject": "Roof repair"}
    ]
    assert set(call(data, "read_mail", id="m1")) == {"from", "subject", "body"}
    assert call(data, "get_weather", city="Oslo")["city"] == "Oslo"
    web = text_of_call(data, "search_web", query="northern lakes")
    assert web.startswith("Northern lakes: The map of the northern lakes")
    assert call(data, "search_files", query="tulips") == [{"path": "garden/plan.txt"}]
    assert call(data, "read_file", path="garden/plan.txt")["text"].startswith("The tulips go along")


def test_at_most_three_are_found_and_long_texts_are_shortened_at_a_word(data: PersonalData) -> None:
    for number in range(5):
        data.notes.create(f"milk number {number}")
    assert len(call(data, "search_notes", query="milk")) == 3
    data.notes.create("word " * 200)
    text = call(data, "read_note", id="n18")["text"]
    assert len(text) <= 404
    assert text.endswith("word ...")


def test_what_is_far_away_takes_as_long_as_it_says(
    data: PersonalData, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(personal_assistant.anyio, "sleep", sleep)
    tools = {tool.name: tool for tool in tools_over(data, Latencies(mail=0.1, weather=0.3, web=0.7))}

    async def go() -> None:
        for name, arguments in {
            "search_mail": {"query": "roof"},
            "read_mail": {"id": "m1"},
            "get_weather": {"city": "Oslo"},
            "search_web": {"query": "lakes"},
            "read_note": {"id": "n1"},
        }.items():
            await tools[name].ainvoke(arguments)

    asyncio.run(go())
    assert waited == [0.2, 0.1, 0.3, 0.7, 0]  # a search is two commands to the mail server


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("read_note", {"id": "n99"}, "no note with id n99"),
        ("read_mail", {"id": "m99"}, "no mail with id m99"),
        ("read_file", {"path": "nope.md"}, "no file at nope.md"),
        ("read_file", {"path": "../notes.md"}, "the path ../notes.md is outside the folder"),
        ("list_events", {"date": "someday"}, "cannot understand the date 'someday'"),
        (
            "add_event",
            {"title": "yoga", "date": "Friday", "time": "soon"},
            "cannot understand the time 'soon'",
        ),
        ("create_note", {"text": " "}, "a note needs a text"),
        ("get_weather", {"city": " "}, "the weather service says: name a city"),
    ],
)
def test_errors_are_json_too(data: PersonalData, name: str, arguments: dict[str, str], error: str) -> None:
    result = call(data, name, **arguments)
    assert list(result) == ["error"]
    assert result["error"].startswith(error)


def test_calls_that_do_not_fit_are_told_to_the_model(data: PersonalData) -> None:
    error = text_of_call(data, "read_note", number=3)
    assert "id" in error
    assert "Field required" in error
    assert "fly_to_moon is not a valid tool" in text_of_call(data, "fly_to_moon", speed=3)


def test_a_tool_that_raises_does_not_end_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def broken() -> str:
        """Break."""
        raise RuntimeError("wires crossed")

    messages = run_with(broken, script=[("broken", {}), "I could not do it."])
    assert isinstance(messages[1], ToolMessage)
    assert messages[1].status == "error"
    assert json.loads(messages[1].text) == {"error": "broken failed: wires crossed"}
    assert messages[-1].text == "I could not do it."
    assert "wires crossed" in caplog.text


def test_a_tool_that_hangs_is_stopped(data: PersonalData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(personal_assistant, "TOOL_TIMEOUT", 0.05)
    going_on = threading.Event()
    monkeypatch.setattr(data.notes, "search", lambda query: going_on.wait())
    try:
        error = call(data, "search_notes", query="milk")["error"]
    finally:
        going_on.set()
    assert error == "search_notes took longer than 0.05 seconds and was stopped"


def test_cancelling_the_turn_cancels_its_tool() -> None:
    async def go() -> None:
        running, stopped = asyncio.Event(), asyncio.Event()

        @tool
        async def hang() -> str:
            """Hang."""
            running.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return ""

        agent = assistant_agent(Scripted(script=[("hang", {}), "never said"]), [hang])
        turn = asyncio.create_task(ask(agent, [HumanMessage("go")], Recorder()))
        await running.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await stopped.wait()

    asyncio.run(go())


def test_a_model_that_calls_tools_for_ever_is_stopped(data: PersonalData) -> None:
    messages = run_with(*tools_over(data), script=[("search_notes", {"query": "milk"})])
    assert sum(isinstance(message, ToolMessage) for message in messages) == 6
    assert "limit" in messages[-1].text


def test_only_reading_tools_are_speculable(data: PersonalData) -> None:
    tools = tools_over(data)
    assert {tool.name for tool in tools if speculable_tool(tool) is None} == {"create_note", "add_event"}
    assert len(tools) == 11
    assert len(assistant_tools(data, NO_WAIT)) == 10  # without the web
    changing = {tool.name for tool in assistant_tools(data, NO_WAIT, changes=True)} - {
        tool.name for tool in tools
    }
    assert changing == {"delete_note", "delete_event", "move_event"}


class Recorder:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def token(self, text: str) -> None:
        self.texts.append(text)

    def message(self, message: AnyMessage) -> None:
        self.texts.append(f"[{message.type}]")


def test_the_view_sees_words_and_messages(data: PersonalData) -> None:
    class Streaming(Scripted):
        async def _astream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
            from langchain_core.messages import AIMessageChunk
            from langchain_core.outputs import ChatGenerationChunk

            for word in ("All ", "is ", "well."):
                yield ChatGenerationChunk(message=AIMessageChunk(word))

    view = Recorder()
    asyncio.run(ask(assistant_agent(Streaming(script=[""]), []), [HumanMessage("go")], view))
    assert "".join(view.texts) == "All is well.[ai]"


def test_the_digest_reads_every_new_mail_once_in_the_background(data: PersonalData) -> None:
    priorities = []

    class Noting(Scripted):
        async def _agenerate(self, *args: Any, **options: Any) -> ChatResult:
            priorities.append(current_priority())
            return await super()._agenerate(*args, **options)

    async def go() -> dict[str, str]:
        digest = await digest_mail(agent, data)
        assert await ask_quietly(agent, "go") == "so it says"
        return digest

    model = Noting(script=["so it says"], seen=[])
    agent = assistant_agent(model, [])
    digest = asyncio.run(go())
    assert digest == {mail.id: "so it says" for mail in data.mail.unread()}
    assert [messages[-1].text for messages in model.seen[:-1]] == [f"Read mail {id}" for id in digest]
    assert "m4" in digest
    assert set(priorities[:-1]) == {Priority.PROACTIVE}
    assert priorities[-1] is Priority.REACTIVE
