"""What the assistant does around a small model: what a request needs, one call after the other, the answer.

A model of one or two billion parameters that is shown all tools and a conversation calls all of them, or
none, and says what it has not done. It tells well what one message needs, calls well what it has to call, and
finds an answer in one text. So it is asked for these one by one. Results that are lists or numbers are stated
in fixed words, short texts as they are, and an answer in the model's own words is checked.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool

from agentrt.adapters.langchain import allow_speculation

from .arguments import QUESTIONS, dictated_note, settle
from .checked_model import CheckedModel
from .checks import claims_deed, is_grounded
from .needs import Need, needs_of, needs_of_words
from .references import READERS, Call, referred
from .results import Made, state

Handler: TypeAlias = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]

_TOOLS: Final[Mapping[Need, Sequence[str]]] = {
    "notes": ("search_notes", "read_note", "create_note"),
    "calendar": ("list_events", "add_event"),
    "mail": ("search_mail", "read_mail"),
    "files": ("search_files", "read_file"),
    "weather": ("get_weather",),
    "web": ("search_web",),
}
_READS: Final = re.compile(r"\b(?:read|open|says?|about|content|details?|summar\w+)\b", re.IGNORECASE)
"""In a message that wants more than a list."""
_ANOTHER: Final = re.compile(r",| and ")
"""What stands between two cities."""
_NAMED: Final = {"read_note": r"\bn\d+\b", "read_mail": r"\bm\d+\b", "read_file": r"\w[./]\w"}
"""How a message names what can be read without a search."""
_NOT_DONE: Final = "I cannot do that, and nothing was done. "
_NO_ANSWER: Final = "I have no answer to that. "
_TALK: Final = (
    "You are a friendly personal assistant. Answer in one or two sentences. You cannot do anything but talk "
    "here: never say that you did something, or that you will. Today is {:%A, %d %B %Y}."
)
_CALL: Final = (
    "You are a personal assistant. Call a tool for the user's message. Write dates as the user says them."
)
_ANSWER: Final = (
    "You are a personal assistant. Answer the user's message in one or two sentences from what was found. "
    "Say nothing else."
)
_SHORT_TEXT: Final = 300
"""Characters of a text that is its own answer."""
_MOST_TOKENS: Final = 400
"""Of a call."""
_MOST_ERRORS: Final = 2
"""Calls for one need that fail, after which it is answered."""
_MOST_CALLS: Final = 3
"""Calls of one tool for one message."""
_REMEMBERED: Final = 3
"""Questions before this one, with their answers, that the model is shown."""


@dataclass(frozen=True)
class Turn:
    """The user's last message and what was called for it."""

    past: Sequence[AnyMessage]
    asked: HumanMessage
    question: str
    """What is asked; with the message before, if this one answers a question of the assistant."""
    before: str
    """The user's message before; empty if there is none."""
    made: Sequence[Made]
    pointed_at: Call | None
    """What reads a thing that was found before and that the message means."""

    @classmethod
    def of(cls, messages: Sequence[AnyMessage]) -> Self:
        """Return the last turn in ``messages``."""
        place = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        past, asked = messages[:place], messages[place]
        assert isinstance(asked, HumanMessage)
        said = [message.text for message in past if isinstance(message, HumanMessage)]
        question = str(asked.text)
        if said and past[-1].text in QUESTIONS:
            question = f"{said.pop()} {question}"
        begun = max((at for at, message in enumerate(past) if isinstance(message, HumanMessage)), default=0)
        pointed_at = referred(question, _calls_in(past[begun:]), _calls_in(past[:begun]))
        return cls(past, asked, question, said[-1] if said else "", _calls_in(messages[place:]), pointed_at)

    @property
    def conversation(self) -> list[AnyMessage]:
        """The latest questions and answers, without calls, which a small model repeats, and this question."""
        said = [
            message
            for message in self.past
            if isinstance(message, HumanMessage)
            or (isinstance(message, AIMessage) and not message.tool_calls)
        ]
        return [*said[-2 * _REMEMBERED :], self.asked]

    @property
    def rest(self) -> list[AnyMessage]:
        """What is left of a question about several cities; nothing of others.

        A small model that is shown the call for one city repeats it.
        """
        cities = [str(call.arguments["city"]) for call in self.made if call.name == "get_weather"]
        rest = re.sub("|".join(map(re.escape, cities)), "", self.question, flags=re.IGNORECASE)
        return (
            [HumanMessage(re.sub(r"(?:,| and)+ (?=and |,)|(?<=in ) *(?:,|and) ", "", rest))] if cities else []
        )

    def state(self, today: dt.date) -> str:
        """Return the results in fixed words; errors only where there is nothing else."""
        told = [call for call in self.made if not call.failed] or self.made[-1:]
        read = {call.name for call in told}
        return "\n".join(
            state(call, today) for call in told if call.found_nothing or READERS.get(call.name) not in read
        )


def _calls_in(turn: Sequence[AnyMessage]) -> list[Made]:
    """Return the calls that have a result, in order."""
    results = {message.tool_call_id: message.text for message in turn if isinstance(message, ToolMessage)}
    return [
        Made(call["name"], call["args"], results[call["id"] or ""])
        for message in turn
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] in results
    ]


def next_tools(question: str, need: Need, made: Sequence[Made]) -> Sequence[str]:
    """Return the names of the tools of which one must be called next for ``need``; none if that is met."""
    tools = _TOOLS.get(need, ())
    own = [call for call in made if call.name in tools]
    first = [name for name in tools if name not in _NAMED or re.search(_NAMED[name], question)]
    if not own:
        return first
    last = own[-1]
    if last.failed and sum(call.failed for call in own) < _MOST_ERRORS:
        return first
    if _is_to_be_read(last, question):
        return (READERS[last.name],)
    if len(tools) == 1 and len(own) <= min(len(_ANOTHER.findall(question)), _MOST_CALLS - 1):
        return tools  # for another city
    return ()


def _is_to_be_read(call: Made, question: str) -> bool:
    if call.name not in READERS or call.failed or call.found_nothing:
        return False
    return not call.lists or _READS.search(question) is not None


@allow_speculation
class StatedResults(AgentMiddleware[Any, Any]):
    """States results in fixed words, for a model that was trained on the tools and words results less well.

    A call whose arguments the user has not said becomes a question to the user.
    """

    def __init__(self, now: Callable[[], dt.datetime] = dt.datetime.now) -> None:
        """``now`` returns the local time."""
        super().__init__()
        self._now = now

    @property
    def _today(self) -> dt.date:
        return self._now().date()

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Answer a turn that has results, unless what was found is to be read; else send the request."""
        turn = Turn.of(request.messages)
        if answered := self._without_model(request, turn, needs_of_words(turn.question)):
            return answered
        if turn.made and not _is_to_be_read(turn.made[-1], turn.question):
            return _said(turn.state(self._today))
        return self._settled(await handler(request), turn)

    def _without_model(
        self, request: ModelRequest[Any], turn: Turn, needs: Sequence[Need]
    ) -> ModelResponse[Any] | None:
        """Return the answer to a message that needs no model, or the call that it dictates or points at."""
        if not turn.made:
            if text := dictated_note(turn.question):
                return _called("create_note", {"text": text})
            if turn.pointed_at:
                return _called(*turn.pointed_at)
        fixed: dict[Need, str] = {
            "impossible": _NOT_DONE + _able(request),
            "abilities": _able(request),
            "clock": f"It is {self._now():%A, %B %d, %Y, %H:%M}.",
        }
        return _said(fixed[needs[0]]) if len(needs) == 1 and needs[0] in fixed else None

    def _settled(self, response: ModelResponse[Any], turn: Turn) -> ModelResponse[Any]:
        message = response.result[-1]
        assert isinstance(message, AIMessage)
        calls: list[ToolCall] = []
        for call in message.tool_calls:
            arguments = settle(call["name"], call["args"], turn.question, turn.before, self._today)
            if isinstance(arguments, str):
                return _said(arguments)
            settled: ToolCall = {**call, "args": arguments}
            if all((settled["name"], arguments) != (other["name"], other["args"]) for other in calls):
                calls.append(settled)
        return ModelResponse([message.model_copy(update={"tool_calls": calls})])


@allow_speculation
class Steering(StatedResults):
    """Finds what a message needs, has tools for that called one after the other, and asks for the answer."""

    def __init__(self, model: BaseChatModel, now: Callable[[], dt.datetime] = dt.datetime.now) -> None:
        """``model`` says what a message needs, and answers."""
        super().__init__(now)
        self._model = model
        self._known: dict[tuple[str, str], list[Need]] = {}

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Send a request for the next call that the turn needs, or for its answer."""
        turn = Turn.of(request.messages)
        needs = await self._needs_of(turn)
        if answered := self._without_model(request, turn, needs):
            return answered
        made = {call.name for call in turn.made}
        begun = [place for place, need in enumerate(needs) if made & {*_TOOLS.get(need, ())}]
        for need in needs[max(begun, default=0) :]:
            names = next_tools(turn.question, need, turn.made)
            if tools := [tool for tool in request.tools if getattr(tool, "name", "") in names]:
                response = self._settled(await handler(_request_of_call(request, turn, tools)), turn)
                # A further call that misses what the user has said, or repeats another, is none.
                if _new_calls(response, turn.made) or not turn.made:
                    return response
        if not turn.made:
            return await handler(self._talk(request, turn))
        found = turn.state(self._today)
        if len(found) <= _SHORT_TEXT or not any(call.has_text for call in turn.made):
            return _said(found)
        return await handler(self._answer(request, turn, found))

    async def _needs_of(self, turn: Turn) -> list[Need]:
        if turn.pointed_at:
            return []
        key = turn.question, turn.before
        if key not in self._known:  # else this turn has asked before
            self._known = {key: await needs_of(self._model, *key)}
        return self._known[key]

    def _talk(self, request: ModelRequest[Any], turn: Turn) -> ModelRequest[Any]:
        def may_say(sentence: str) -> bool:
            return not claims_deed(sentence, (), looked=False)

        prompt = _TALK.format(self._today)
        return self._checked(request, prompt, turn.conversation, may_say, _NO_ANSWER + _able(request))

    def _answer(self, request: ModelRequest[Any], turn: Turn, found: str) -> ModelRequest[Any]:
        done = [call.name for call in turn.made if not call.failed]
        known = f"{turn.question} {found}"

        def may_say(sentence: str) -> bool:
            return not claims_deed(sentence, done, looked=True) and is_grounded(sentence, known)

        asked = HumanMessage(f"{turn.question}\n\nWhat was found:\n{found}")
        return self._checked(request, _ANSWER, [asked], may_say, found)

    def _checked(
        self,
        request: ModelRequest[Any],
        prompt: str,
        messages: list[AnyMessage],
        may_say: Callable[[str], bool],
        otherwise: str,
    ) -> ModelRequest[Any]:
        return request.override(
            model=CheckedModel(model=self._model, may_say=may_say, otherwise=otherwise),
            messages=messages,
            tools=[],
            system_message=SystemMessage(prompt),
        )


def _able(request: ModelRequest[Any]) -> str:
    web = (
        " and on the web" if any(getattr(tool, "name", "") == "search_web" for tool in request.tools) else ""
    )
    return (
        f"I can look things up in your notes, calendar, mail and files{web}, write notes and add single "
        "events."
    )


def _called(name: str, arguments: Mapping[str, Any]) -> ModelResponse[Any]:
    call = ToolCall(name=name, args=dict(arguments), id=f"call_{uuid.uuid4().hex}")
    return ModelResponse(
        [AIMessage("", tool_calls=[call], response_metadata={"finish_reason": "tool_calls"})]
    )


def _said(text: str) -> ModelResponse[Any]:
    return ModelResponse([AIMessage(text, response_metadata={"finish_reason": "stop"})])


def _request_of_call(
    request: ModelRequest[Any], turn: Turn, tools: list[BaseTool | dict[str, Any]]
) -> ModelRequest[Any]:
    return request.override(
        messages=turn.rest or [*turn.conversation[:-1], *request.messages[len(turn.past) :]],
        tools=tools,
        tool_choice="required",
        system_message=SystemMessage(_CALL),
        model_settings={"parallel_tool_calls": False, "max_tokens": _MOST_TOKENS},
    )


def _new_calls(response: ModelResponse[Any], made: Sequence[Made]) -> list[ToolCall]:
    """Return the calls of ``response`` that were not ``made`` before."""
    known = [(one.name, one.arguments) for one in made]
    calls = [
        call for message in response.result if isinstance(message, AIMessage) for call in message.tool_calls
    ]
    return [call for call in calls if (call["name"], call["args"]) not in known]
