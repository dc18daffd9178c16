"""A personal assistant that runs on this machine: LangGraph's agent, a local model, real tools.

    python examples/personal_assistant.py
    python examples/personal_assistant.py --model model.gguf "What is the weather in Paris and Rome?"

Read this file from top to bottom. An agent that speculates has these parts:

1. the tools: ordinary LangChain tools, with ``@speculable`` on those that only read;
2. the model: opened once, in this process;
3. the agent: ``create_agent`` as always;
4. speculation: one line around the model;
5. a turn of the agent;
6. background work that gives way to the user;
7. all of it together.

The data behind the tools is in ``assistant/`` beside this file; ``demo/comparison.py`` runs
the agent plain and speculative, which is what ``agentrt demo`` shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
import typer
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware, ToolErrorMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt.tool_node import ToolCallRequest

from agentrt import Priority, SpeculationConfig, priority, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.config import TurnAhead
from agentrt.examples.assistant.data import PersonalData, workspace
from agentrt.examples.assistant.dates import parse_time
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.model import open_runtime
from agentrt.examples.assistant.requests import requests_about
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.search import asks_for_list
from agentrt.examples.assistant.services import Latencies, look_up, weather_in
from agentrt.examples.assistant.steering import Steering
from agentrt.examples.assistant.view import TurnView, describe
from agentrt.examples.gallery.script import Model, run_script
from agentrt.reports import SpeculationObserver
from agentrt.runtime import LocalRuntime
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator, PatternSpeculator

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
Agent = CompiledStateGraph[Any, Any, Any, Any]

NANO_PROMPT = "You are a personal assistant. Use the tools to answer."  # as it was trained with
# Small models that were told less repeat a call whose result they have, and never answer.
SYSTEM_PROMPT = (
    "You are a personal assistant. Call a tool to look something up. After a search, call the tool that "
    "reads what was found. As soon as a tool response has the answer, answer the user in one sentence and "
    "call nothing more."
)
TOOL_TIMEOUT = 15.0  # seconds
_LONGEST_TEXT = 400  # characters of a note, mail or file that the model is shown
_LATEST_MAILS = 5
MOST_TOKENS = 256  # that the model may write at once; a small one does not always find the end
MOST_MODEL_CALLS = 6  # in one turn

_log = logging.getLogger(__name__)


# 1. The tools. Each takes and returns text that the model can read. A tool marked @speculable only looks
# something up, so it may run before the model has called it; those that write are not marked.


def assistant_tools(
    data: PersonalData, latencies: Latencies, *, web: bool = False, changes: bool = False
) -> list[BaseTool]:
    """Return the tools over ``data`` and a weather service, with one for the web if ``web``.

    Those that delete and move what there is are among them if ``changes``, and events say when they end and
    where they are; nano was not trained on that.
    Those that would ask a server wait as long as one takes to answer.
    """

    @speculable
    @tool
    async def search_notes(query: str) -> str:
        """Search the user's notes."""
        notes = await (
            _in_thread(data.notes.all) if asks_for_list(query) else _in_thread(data.notes.search, query)
        )
        return json.dumps([{"id": note.id, "title": note.title} for note in notes], ensure_ascii=False)

    @speculable
    @tool
    async def read_note(id: str) -> str:
        """Read a note by id."""
        note = await _in_thread(data.notes.read, id)
        return json.dumps({"title": note.title, "text": _shorten(note.text)}, ensure_ascii=False)

    @tool
    async def create_note(text: str) -> str:
        """Create a note."""
        if not text.strip():
            raise ToolError("a note needs a text")
        note = await _in_thread(data.notes.create, text)
        return json.dumps({"saved": note.id})

    @speculable
    @tool
    async def list_events(date: str) -> str:
        """List the events on a date."""
        events = await _in_thread(data.calendar.events_on, date)
        known = ("time", "title", "until", "place") if changes else ("time", "title")
        shown = [
            {name: value for name, value in asdict(event).items() if value and name in known}
            for event in events
        ]
        return json.dumps(shown, ensure_ascii=False)

    @tool
    async def add_event(title: str, date: str, time: str) -> str:
        """Add a calendar event."""
        await _in_thread(data.calendar.add, title, date, time)
        added, begins = {"added": title, "date": date, "time": time}, f"{parse_time(time):%H:%M}"
        return json.dumps(added if begins == time else added | {"begins": begins}, ensure_ascii=False)

    @speculable
    @tool
    async def search_mail(query: str) -> str:
        """Search the mail."""
        if asks_for_list(query):
            mails = (await _in_thread(data.mail.all, after=latencies.mail))[: -1 - _LATEST_MAILS : -1]
        else:
            mails = await _in_thread(data.mail.search, query, after=2 * latencies.mail)
        return json.dumps(
            [{"id": mail.id, "from": mail.sender, "subject": mail.subject} for mail in mails],
            ensure_ascii=False,
        )

    @speculable
    @tool
    async def read_mail(id: str) -> str:
        """Read a mail by id."""
        mail = await _in_thread(data.mail.read, id, after=latencies.mail)
        return json.dumps(
            {"from": mail.sender, "subject": mail.subject, "body": _shorten(mail.body)}, ensure_ascii=False
        )

    @speculable
    @tool
    async def search_files(query: str) -> str:
        """Search the files."""
        paths = await (
            _in_thread(data.files.all) if asks_for_list(query) else _in_thread(data.files.search, query)
        )
        return json.dumps([{"path": path} for path in paths], ensure_ascii=False)

    @speculable
    @tool
    async def read_file(path: str) -> str:
        """Read a file."""
        file = await _in_thread(data.files.read, path)
        return json.dumps({"path": file.path, "text": _shorten(file.text)}, ensure_ascii=False)

    @speculable
    @tool
    async def get_weather(city: str) -> str:
        """Get the weather in a city."""
        weather = await _in_thread(weather_in, city, after=latencies.weather)
        return json.dumps(weather, ensure_ascii=False)

    @speculable
    @tool
    async def search_web(query: str) -> str:
        """Search the web."""
        title, text = await _in_thread(look_up, query, after=latencies.web)
        return f"{title}: {_shorten(text)}"

    @tool
    async def delete_note(id: str, title: str = "") -> str:
        """Delete a note by id. The title, for the user who is asked first, has to be the note's."""
        note = await _in_thread(data.notes.delete, id, title)
        return json.dumps({"deleted": note.id, "title": note.title}, ensure_ascii=False)

    @tool
    async def delete_event(title: str, date: str) -> str:
        """Cancel a single calendar event."""
        event = await _in_thread(data.calendar.delete, title, date)
        return json.dumps(
            {"cancelled": event.title, "date": f"{event.date}", "time": event.time}, ensure_ascii=False
        )

    @tool
    async def move_event(title: str, date: str, new_date: str = "", new_time: str = "") -> str:
        """Move a single calendar event to another day or time; empty is the same."""
        event = await _in_thread(data.calendar.move, title, date, new_date, new_time)
        return json.dumps(
            {"moved": event.title, "date": f"{event.date}", "time": event.time}, ensure_ascii=False
        )

    tools = [
        search_notes, read_note, create_note, list_events, add_event,
        search_mail, read_mail, search_files, read_file, get_weather,
    ]  # fmt: skip
    if changes:
        tools += [delete_note, delete_event, move_event]
    return [*tools, search_web] if web else tools


# 2. The model. Everything below shares one runtime: one copy of the weights, one batch.
# assistant/model.py opens it.


# 3. The agent. By default LangChain ends the run when a tool raises. This middleware returns the error to
# the model instead, which can try something else or explain it. Unexpected exceptions are logged.


def system_prompt(runtime: LocalRuntime) -> str:
    """Return what the model of ``runtime`` is told before a conversation."""
    return NANO_PROMPT if runtime.model_id == "nano" else SYSTEM_PROMPT


def assistant_agent(
    model: BaseChatModel,
    tools: Sequence[BaseTool],
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    prompt: str = SYSTEM_PROMPT,
) -> Agent:
    """Return a LangGraph agent that answers with ``tools``; ``middleware`` is around its own."""
    own: list[AgentMiddleware[Any, Any]] = [
        ToolErrorMiddleware(_explain_error),
        ModelCallLimitMiddleware(run_limit=MOST_MODEL_CALLS, exit_behavior="end"),
    ]
    return create_agent(model, tools, system_prompt=prompt, middleware=[*middleware, *own])


def _explain_error(error: Exception, request: ToolCallRequest) -> str:
    name = request.tool_call["name"]
    if isinstance(error, ToolError):
        message = str(error)
    elif isinstance(error, TimeoutError):
        message = f"{name} took longer than {TOOL_TIMEOUT:g} seconds and was stopped"
    else:
        _log.warning("the tool %s failed", name, exc_info=error)
        message = f"{name} failed: {error or type(error).__name__}"
    return json.dumps({"error": message}, ensure_ascii=False)


# 4. Speculation. While the model generates, its next tool call is predicted: by a much smaller model, and by
# what it has called before in such places, which is learned on the way. Predicted calls of @speculable tools
# start at once; when the model makes such a call, its result is ready or on its way. When a tool is done
# before the model has written the call, the next model request is sent ahead, too. A wrong prediction costs a
# little work and changes nothing.


def speculative(model: BaseChatModel, observers: Sequence[SpeculationObserver] = ()) -> BaseChatModel:
    """Return ``model`` with its calls predicted; ``observers`` receive the events."""
    # A model of a million parameters takes some milliseconds of one core, and leaves the others to the model.
    draft_model = LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False)
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=2))
    learner = PatternSpeculator(max_drafts=1, min_probability=0.5)  # only what it is rather sure of
    return speculate(model, [learner, draft_model], config=config, observers=observers)


# 5. A turn of the agent.


async def ask(
    agent: Agent,
    messages: Sequence[AnyMessage],
    view: TurnView,
    callbacks: Sequence[BaseCallbackHandler] = (),
) -> list[AnyMessage]:
    """Run one turn and return the messages it added to ``messages``; ``view`` receives each token."""
    history = list(messages)
    events: AsyncIterator[Any] = agent.astream(
        {"messages": history}, {"callbacks": list(callbacks)}, stream_mode=["messages", "values"]
    )
    async for kind, part in events:
        if kind == "values":
            for message in part["messages"][len(history) :]:
                view.message(message)
            history = part["messages"]
        elif isinstance(part[0], AIMessageChunk):
            view.token(part[0].text)
    return history[len(messages) :]


async def ask_quietly(agent: Agent, request: str) -> str:
    """Run one turn without a view and return its answer."""
    state = await agent.ainvoke({"messages": [HumanMessage(request)]})
    answer: AnyMessage = state["messages"][-1]
    return answer.text


# 6. Background work. The same kind of agent, with the priority PROACTIVE: the runtime serves the user's
# requests first. It uses the plain model: no user waits for these answers, and drafting would take computing
# time from the one who does.


async def digest_mail(agent: Agent, data: PersonalData) -> dict[str, str]:
    """Have the agent read every new mail; return its answers by mail id."""
    mails = await _in_thread(data.mail.unread)
    with priority(Priority.PROACTIVE):
        return {mail.id: await ask_quietly(agent, f"Read mail {mail.id}") for mail in mails}


async def _in_thread(function: Callable[[*Ts], R], *args: *Ts, after: float = 0.0) -> R:
    # Tools read files, which would block the event loop. A call that hangs is abandoned in its thread.
    with anyio.fail_after(TOOL_TIMEOUT):
        await anyio.sleep(after)
        return await anyio.to_thread.run_sync(function, *args, abandon_on_cancel=True)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT].rsplit(" ", 1)[0] + " ..."


# 7. All of it together, on sample data: a person's questions, with new mail read in the background.


def run(model: str, questions: Sequence[str]) -> None:
    """Answer ``questions``, or some about the sample data, and print what happens."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(workspace()) / "sample"
        write_sample_data(folder, dt.date.today())
        data = stack.enter_context(contextlib.closing(PersonalData.open(folder)))
        runtime = stack.enter_context(open_runtime(model))
        plain = ChatAgentRT(runtime=runtime, max_tokens=MOST_TOKENS)
        faster = speculative(plain)
        nano = runtime.model_id == "nano"
        tools = assistant_tools(data, Latencies(), web=True, changes=not nano)
        around = [] if nano else [Steering(data, plain)]
        reader, agent = (
            assistant_agent(each, tools, around, system_prompt(runtime)) for each in (plain, faster)
        )
        asyncio.run(_converse(reader, agent, data, questions or requests_about(data)))
    total = report_of(faster).total
    print(f"\n{total.claims} calls were answered by speculation, {total.misses} were not predicted;")
    print(f"{total.wasted} speculations were wasted.")


async def _converse(reader: Agent, agent: Agent, data: PersonalData, questions: Sequence[str]) -> None:
    background = asyncio.create_task(digest_mail(reader, data))
    for question in questions:
        print(f"\n> {question}")
        await ask(agent, [HumanMessage(question)], _Printer())
    print(f"\n{len(await background)} new mails were read in the background.")


class _Printer:
    """Prints calls, results and answers."""

    def token(self, text: str) -> None:
        """Answers are printed when they are complete."""

    def message(self, message: AnyMessage) -> None:
        for line in describe(message):
            print(f"  {line}")


def main(
    questions: Annotated[
        list[str] | None, typer.Argument(help="What to ask; by default some examples.")
    ] = None,
    model: Model = "nano",
) -> None:
    """Answer questions about sample notes, mail, calendar and files, with speculative tool calls."""
    run(model, questions or [])


if __name__ == "__main__":
    run_script(main)
