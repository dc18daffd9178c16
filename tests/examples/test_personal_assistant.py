"""The tools and the agent over real data, driven by a model that follows a script."""

import asyncio
import datetime as dt
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
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
from agentrt.examples.assistant.folder_index import FolderIndex
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.weather import WeatherService
from agentrt.examples.assistant.website import WebSite
from agentrt.examples.personal_assistant import (
    ask,
    ask_quietly,
    assistant_agent,
    assistant_tools,
    digest_mail,
    index_files,
)
from agentrt.tools.speculable import speculable_tool

WEDNESDAY = dt.date(2026, 11, 18)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "data"
    write_sample_data(folder, WEDNESDAY)
    return folder


@pytest.fixture
def data(sample: Path, tmp_path: Path) -> Iterator[PersonalData]:
    copy_data(sample, tmp_path / "data")
    data = PersonalData.open(tmp_path / "data", lambda: WEDNESDAY)
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


def call(data: PersonalData, name: str, url: str = "http://127.0.0.1:9", **arguments: Any) -> Any:
    """The JSON that a tool answers through the agent."""
    return json.loads(text_of_call(data, name, url, **arguments))


def text_of_call(data: PersonalData, name: str, url: str = "http://127.0.0.1:9", **arguments: Any) -> str:
    """What a tool answers through the agent, as the model sees it."""

    async def go() -> list[AnyMessage]:
        async with httpx.AsyncClient(base_url=url) as client:
            agent = assistant_agent(
                Scripted(script=[(name, arguments), "done"]), assistant_tools(data, client, client)
            )
            return await ask(agent, [HumanMessage("go")], Recorder())

    messages = asyncio.run(go())
    assert [message.type for message in messages] == ["ai", "tool", "ai"]
    assert messages[-1].text == "done"
    return messages[1].text


def run_with(*tools: BaseTool, script: list[Any]) -> list[AnyMessage]:
    return asyncio.run(ask(assistant_agent(Scripted(script=script), tools), [HumanMessage("go")], Recorder()))


def test_results_are_the_json_that_the_model_was_trained_on(data: PersonalData) -> None:
    assert call(data, "search_notes", query="lasagne") == [{"id": "n1", "title": "Lasagne recipe"}]
    assert call(data, "search_notes", query="zeppelin") == []
    assert call(data, "read_note", id="n11")["title"] == "Bread starter"
    assert call(data, "create_note", text="buy candles") == {"saved": "n13"}
    assert call(data, "read_note", id="n13") == {"title": "buy candles", "text": "buy candles"}
    assert call(data, "list_events", date="tomorrow")[0] == {"time": "09:30", "title": "Dentist"}
    added = {"title": "yoga", "date": "Friday", "time": "15:00"}
    assert call(data, "add_event", **added) == {"added": "yoga", "date": "Friday", "time": "15:00"}
    assert {"time": "15:00", "title": "yoga"} in call(data, "list_events", date="on Friday")
    assert call(data, "search_mail", query="roof") == [
        {"id": "m1", "from": "Nadia Berg", "subject": "Roof repair"}
    ]
    assert set(call(data, "read_mail", id="m1")) == {"from", "subject", "body"}
    assert call(data, "search_files", query="tulips") == [{"path": "garden/plan.md"}]
    assert call(data, "read_file", path="garden/plan.md")["text"].startswith("The tulips go along")


def test_at_most_three_are_found(data: PersonalData) -> None:
    for number in range(5):
        data.notes.create(f"milk number {number}")
    assert len(call(data, "search_notes", query="milk")) == 3


def test_weather_comes_over_http(data: PersonalData) -> None:
    with WeatherService(0) as service:
        weather = call(data, "get_weather", service.url, city="Oslo")
    assert set(weather) == {"city", "temperature", "sky"}
    assert weather["city"] == "Oslo"


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("read_note", {"id": "n99"}, "no note with id n99"),
        ("read_mail", {"id": "m99"}, "no mail with id m99"),
        ("read_file", {"path": "nope.md"}, "no file at nope.md"),
        ("read_file", {"path": "../notes.db"}, "the path ../notes.db is outside the folder"),
        ("list_events", {"date": "someday"}, "cannot understand the date 'someday'"),
        (
            "add_event",
            {"title": "yoga", "date": "Friday", "time": "soon"},
            "cannot understand the time 'soon'",
        ),
        ("create_note", {"text": " "}, "a note needs a text"),
        ("get_weather", {"city": "Oslo"}, "the weather service does not answer"),
    ],
)
def test_errors_are_json_too(data: PersonalData, name: str, arguments: dict[str, str], error: str) -> None:
    result = call(data, name, **arguments)
    assert list(result) == ["error"]
    assert result["error"].startswith(error)


def test_long_texts_are_shortened_at_a_word(data: PersonalData) -> None:
    data.notes.create("word " * 200, "long")
    text = call(data, "read_note", id="n13")["text"]
    assert len(text) <= 404
    assert text.endswith("word ...")


def test_arguments_that_do_not_fit_are_told_to_the_model(data: PersonalData) -> None:
    error = text_of_call(data, "read_note", number=3)
    assert "id" in error
    assert "Field required" in error


def test_a_tool_that_is_not_there_is_told_to_the_model(data: PersonalData) -> None:
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


def test_the_web_comes_over_http(data: PersonalData) -> None:
    with WebSite(0) as site:
        text = text_of_call(data, "search_web", site.url, query="northern lakes")
    assert text.startswith("Northern lakes: The map of the northern lakes")


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
    async def go() -> list[AnyMessage]:
        async with httpx.AsyncClient() as client:
            model = Scripted(script=[("search_notes", {"query": "milk"})])
            return await ask(
                assistant_agent(model, assistant_tools(data, client)), [HumanMessage("go")], Recorder()
            )

    messages = asyncio.run(go())
    assert sum(isinstance(message, ToolMessage) for message in messages) == 6
    assert "limit" in messages[-1].text


def test_only_reading_tools_are_speculable(data: PersonalData) -> None:
    tools = assistant_tools(data, httpx.AsyncClient())
    assert {tool.name for tool in tools if speculable_tool(tool) is None} == {"create_note", "add_event"}
    assert len(tools) == 10


class Recorder:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.progress: list[tuple[str, int, int]] = []
        self.texts: list[str] = []

    def token(self, text: str) -> None:
        self.texts.append(text)

    def message(self, message: AnyMessage) -> None:
        self.texts.append(f"[{message.type}]")

    def begin(self, requests: int) -> None: ...
    def request(self, number: int, text: str, agent: str) -> None: ...
    def turn(self, seconds: float) -> None: ...
    def speculation(self, tool: str) -> None: ...

    def background(self, task: str, done: int, total: int) -> None:
        self.progress.append((task, done, total))


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


def test_background_tasks_do_every_item_once_and_say_so(data: PersonalData, tmp_path: Path) -> None:
    view, model = Recorder(), Scripted(script=["so it says"], seen=[])
    agent, index = assistant_agent(model, []), FolderIndex(tmp_path / "index.db")

    async def go() -> tuple[dict[str, str], dict[str, str]]:
        return await digest_mail(agent, data, view), await index_files(agent, data, index, view)

    digest, summaries = asyncio.run(go())
    assert digest == {mail.id: "so it says" for mail in data.mail.unread()}
    assert set(summaries) == set(data.files.versions())
    assert view.progress[-1] == ("index changed files", 10, 10)
    assert ("digest new mail", 9, 9) in view.progress
    asked = [messages[-1].text for messages in model.seen]
    assert "Read mail m4" in asked
    assert "Read the file work/bridge.md" in asked

    (data.files.root / "new.txt").write_text("fresh")
    model.seen.clear()
    asyncio.run(index_files(agent, data, index, view))
    assert [messages[-1].text for messages in model.seen] == ["Read the file new.txt"]


def test_background_work_is_proactive(data: PersonalData) -> None:
    from agentrt.priority import Priority, current_priority

    priorities = []

    class Noting(Scripted):
        async def _agenerate(self, *args: Any, **options: Any) -> ChatResult:
            priorities.append(current_priority())
            return await super()._agenerate(*args, **options)

    async def go() -> None:
        agent = assistant_agent(Noting(script=["yes"], seen=[]), [])
        await digest_mail(agent, data, Recorder())
        assert await ask_quietly(agent, "go") == "yes"

    asyncio.run(go())
    assert set(priorities[:-1]) == {Priority.PROACTIVE}
    assert priorities[-1] is Priority.REACTIVE
