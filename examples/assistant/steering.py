"""What the assistant does around a small model: it plans calls by the message's words, and states results.

A model of one or two billion parameters that is shown all tools and a conversation calls all of them, or
none, and says what it has not done. So what a message asks for is read from its words and looked up among
the user's texts (:mod:`.planning`); where these do not tell, the model says which kind of thing it is about.
Lists, numbers and short texts are stated in fixed words, and an answer in the model's own words is checked.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeAlias

import anyio.to_thread
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from agentrt.adapters.langchain import allow_speculation

from . import phrases
from .changes import CHANGES, I_MEAN, TO_WHEN
from .checked_model import CheckedModel
from .checks import claims_deed, is_grounded, mixes_facts
from .data import PersonalData
from .dictation import WHICH_TEXT
from .meant import MEANT_EVENT, MEANT_NOTE, WHICH_ONE
from .needs import Need, needs_of, needs_of_words
from .planning import LOOKS_UP, NOT_ANSWERED, WHICH_CITY, Planner, Step
from .references import READERS
from .results import Made, state
from .retrieval import content_words
from .sentences import is_request
from .when import is_dated, said_when
from .writes import WHICH_DAY, WHICH_EVENT, WHICH_TIME, Call

Handler: TypeAlias = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]

_COMPLETED: Final[Mapping[str, str]] = {
    WHICH_CITY: "{asked} in {answer}",
    WHICH_TEXT: "note: {answer}",
    WHICH_EVENT: "{asked} {answer}",
    WHICH_DAY: "{asked} on {answer}",
    WHICH_TIME: "{asked} at {answer}",
}
"""The message that an answer to a question of the assistant completes."""
_COMPLETED_CHANGE: Final[Mapping[str, str]] = {
    MEANT_EVENT: f"{{asked}}{I_MEAN}{{answer}}",
    MEANT_NOTE: f"{{asked}}{I_MEAN}{{answer}}",
    WHICH_ONE: f"{{asked}}{I_MEAN}{{answer}}",
    TO_WHEN: "{asked} to {answer}",
}
"""The same of a change, if the answer is no other request."""
_LEAD: Final = phrases.any_case(
    rf"^(?:\W*(?:{phrases.FILLER}|let's say|make it|call it|it'?s called|at|in)\b\W*)+"
)
"""What stands before the answer to a question."""
_NO_ANSWER_TO_IT: Final = phrases.any_case(
    r"\W*(?:list|show|read|find|search|look|tell|what|who|when|where|which|how|new mail|any mail|hello|hi"
    r"|never ?mind|forget it|stop|nothing)\b"
)
"""How a message begins that answers no question about an event."""
_NOT_DONE: Final = "I cannot do that, and nothing was done. "
_NO_ANSWER: Final = "I have no answer to that. "
_HEARD: Final = "I see. Is there anything that I can look up for you, or note?"
_SMALL_TALK: Final[Mapping[re.Pattern[str], str]] = {
    phrases.PRAISE: "Thank you! I am glad to help.",
    phrases.APOLOGY: "No problem!",
    phrases.WHO_ARE_YOU: "I am a personal assistant, a program on this computer.",
}
_NOTHING: Final = "I found nothing about {} in your notes, mail and files, so I cannot tell."
_CLOSEST: Final = "The closest I found: "
_TALK: Final = (
    "You are a friendly personal assistant. Answer in one or two sentences. You cannot do anything but talk "
    "here: never say that you did something, or that you will. Today is {:%A, %d %B %Y}."
)
_ANSWER: Final = (
    "You are a personal assistant. Answer the user's message in one or two sentences from what was found. "
    "Say nothing else."
)
_SHORT_TEXT: Final = 300
"""Characters of a text that is its own answer."""
_REMEMBERED: Final = 3
"""Questions before this one, with their answers, that the model is shown."""
_KEPT_PLANS: Final = 16
"""Of turns in progress, of which a call changes the data that the plan was made of."""


@dataclass(frozen=True)
class Turn:
    """The user's last message and what was called for it."""

    past: Sequence[AnyMessage]
    asked: HumanMessage
    question: str
    """What is asked; with the message before, if this one answers a question of the assistant."""
    said_before: str
    """The user's message before; empty if there is none."""
    made: Sequence[Made]
    made_before: Sequence[Made]
    """The calls for the message before."""
    made_earlier: Sequence[Made]

    @classmethod
    def of(cls, messages: Sequence[AnyMessage], today: dt.date) -> Self:
        """Return the last turn in ``messages``."""
        *earlier, place = [at for at, message in enumerate(messages) if isinstance(message, HumanMessage)]
        past, asked = messages[:place], messages[place]
        assert isinstance(asked, HumanMessage)
        said: list[str] = []
        for at in (*earlier, place):
            text = str(messages[at].text)
            if said and (completed := _completed(messages[at - 1].text, said[-1], text, today)):
                said[-1] = completed
            else:
                said.append(text)
        question = said.pop()
        begun = earlier[-1] if earlier else 0
        return cls(
            past,
            asked,
            question,
            said[-1] if said else "",
            _calls_in(messages[place:]),
            _calls_in(past[begun:]),
            _calls_in(past[:begun]),
        )

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
    def has_found(self) -> bool:
        """Whether anything was found."""
        return any(not (call.failed or call.found_nothing) for call in self.made)

    @property
    def has_noted(self) -> bool:
        """Whether a note was written, or failed to be."""
        return any(call.name == "create_note" for call in self.made)

    def state(self, today: dt.date, closest: Sequence[Call] = ()) -> str:
        """Return the results in fixed words, of ``closest`` that they may not be what is meant.

        Errors only where there is nothing else.
        """
        told = [call for call in self.made if not call.failed] or self.made[-1:]
        read = {call.name for call in told}
        leads = {True: _CLOSEST, False: ""}
        return "\n".join(
            leads[call.has_text and (call.name, call.arguments) in closest] + state(call, today)
            for call in told
            if call.found_nothing or READERS.get(call.name) not in read
        )


def _completed(shown: str, asked: str, answer: str, today: dt.date) -> str | None:
    """Return ``asked`` with ``answer``, if what was ``shown`` between them ends with the question for it."""
    question = shown.rpartition("\n")[2]
    question = WHICH_ONE if question.startswith(WHICH_ONE) else question
    asked = asked.rstrip(" ?!.")
    if question in _COMPLETED and _is_other_request(question, _LEAD.sub("", answer), today):
        return None
    if question in (WHICH_DAY, WHICH_TIME, TO_WHEN) and not answer.endswith("?"):
        day, time = said_when(answer, today)
        said = " at ".join(filter(None, (day, time)))
        if said:
            word = "to" if question == TO_WHEN else "on" if day else "at"
            return f"{asked} {word} {said}"
    template = _COMPLETED.get(question) or (
        None if phrases.REQUEST.match(answer) else _COMPLETED_CHANGE.get(question)
    )
    return template and template.format(asked=asked, answer=_LEAD.sub("", answer))


def _is_other_request(question: str, answer: str, today: dt.date) -> bool:
    """Return whether ``answer`` asks for something else than what the ``question`` was about."""
    if question == WHICH_TEXT:
        return False  # which may be anything
    if _NO_ANSWER_TO_IT.match(answer):
        return True
    is_request = phrases.REQUEST.match(answer) is not None
    return is_request and (question != WHICH_EVENT or is_dated(answer, today))


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


@allow_speculation
class Steering(AgentMiddleware[Any, Any]):
    """Calls what a message asks for, and states what was found or lets the model answer from it."""

    def __init__(
        self,
        data: PersonalData,
        model: BaseChatModel | None = None,
        now: Callable[[], dt.datetime] = dt.datetime.now,
    ) -> None:
        """``model`` tells what a message is about, answers from long texts and talks.

        Without one the agent's own only talks. ``now`` returns the local time.
        """
        super().__init__()
        self._data = data
        self._model = model
        self._now = now
        self._plans: dict[tuple[str, int], list[Step]] = {}

    @property
    def _today(self) -> dt.date:
        return self._now().date()

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Make the calls that the turn needs, then answer."""
        turn = Turn.of(request.messages, self._today)
        steps = await self._plan(turn, request)
        all_calls = [call for step in steps for call in step.calls]
        calls = [call for place, call in enumerate(all_calls) if call not in all_calls[:place]]
        if open_calls := calls[len(turn.made) :]:
            return _called(_at_once(open_calls))
        says = [step.says for step in steps if step.says]
        if turn.made or says:
            missed = [step for step in steps if not step.is_sure and is_request(step.text)]
            says += [NOT_ANSWERED.format(step.text) for step in missed]
        if not turn.made:
            return _said("\n".join(says)) if says else await self._talk(request, handler, turn)
        closest = [(each[0], dict(each[1])) for step in steps if step.is_closest for each in step.calls]
        found = turn.state(self._today, closest)
        if any(step.notes_found for step in steps) and turn.has_found and not turn.has_noted:
            return _called([("create_note", {"text": found})])
        if (
            self._model is None
            or says
            or closest
            or len(found) <= _SHORT_TEXT
            or not any(call.has_text for call in turn.made)
        ):
            return _said("\n".join([found, *says]))
        return await handler(self._answer(request, turn, found))

    async def _plan(self, turn: Turn, request: ModelRequest[Any]) -> list[Step]:
        key = turn.question, len(turn.past)
        if key not in self._plans or not turn.made:
            now = self._now()
            planner = Planner(self._data, now.date(), _has_web(request), turn.said_before, now)
            steps = await anyio.to_thread.run_sync(
                planner.plan, turn.question, turn.made_before, turn.made_earlier
            )
            steps = [await self._settled(step, turn, planner, request) for step in steps]
            self._plans[key] = steps
            while len(self._plans) > _KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
        return self._plans[key]

    async def _settled(self, step: Step, turn: Turn, planner: Planner, request: ModelRequest[Any]) -> Step:
        """Return a step with its calls or its fixed answer; as it is, if it is to be talked about."""
        if step.is_sure:
            return replace(step, found=None)
        needs = needs_of_words(step.text)
        if not needs and phrases.GENERAL.match(step.text):
            needs = ["talk"]
        if not needs and phrases.CANNOT.match(step.text):
            needs = ["impossible"]
        if not needs and self._model is not None:
            needs = await needs_of(self._model, step.text, turn.said_before)
        fixed: dict[Need, str] = {
            "impossible": _NOT_DONE + _able(request),
            "abilities": _able(request),
            "clock": f"It is {self._now():%A, %B %d, %Y, %H:%M}.",
        }
        says = [fixed[need] for need in needs if need in fixed]
        if not says:
            says = [said for pattern, said in _SMALL_TALK.items() if pattern.match(step.text)]
        if not says and self._model is None and phrases.LIKES.match(step.text):  # it knows its tools only
            says = [_HEARD]
        if says:
            return Step(step.text, says=says[0])
        if self._model is None:
            step = planner.with_text(step)
            asks = step.text.endswith("?") or phrases.REQUEST.match(step.text)
            if not (step.is_sure or needs or asks) and phrases.STATEMENT.match(step.text):
                return Step(step.text, says=_HEARD)
        for need in needs:
            step = planner.for_need(step, need)
        if not step.is_sure and phrases.OPENS.match(step.text):
            return replace(step, says=fixed["impossible"])
        mine = phrases.MINE.match(step.text) or ("talk" not in needs and phrases.CERTAIN.match(step.text))
        if (
            not step.is_sure
            and mine
            and not phrases.GENERAL.match(step.text)
            and (words := content_words(step.text))
        ):
            return replace(step, says=_NOTHING.format(" ".join(words)))
        return step

    async def _talk(self, request: ModelRequest[Any], handler: Handler, turn: Turn) -> ModelResponse[Any]:
        otherwise = _NO_ANSWER + _able(request)
        # What stands for itself is not mixed with what was found before.
        said: list[AnyMessage] = [turn.asked] if phrases.GENERAL.match(turn.question) else turn.conversation
        if self._model is None:  # it was not trained on tools that change what there is
            tools = [tool for tool in request.tools if getattr(tool, "name", "") not in CHANGES]
            response = await handler(request.override(tools=tools, messages=said))
            message = response.result[-1]
            talks = isinstance(message, AIMessage) and not message.tool_calls and message.text.strip()
            return response if talks else _said(otherwise)

        def may_say(sentence: str) -> bool:
            return not claims_deed(sentence, (), looked=False)

        prompt = _TALK.format(self._today)
        return await handler(_checked(request, self._model, prompt, said, may_say, otherwise))

    def _answer(self, request: ModelRequest[Any], turn: Turn, found: str) -> ModelRequest[Any]:
        assert self._model is not None
        done = [call.name for call in turn.made if not call.failed]
        known = f"{turn.question} {found}"

        def may_say(sentence: str) -> bool:
            is_fact = is_grounded(sentence, known) and not mixes_facts(sentence, found)
            return is_fact and not claims_deed(sentence, done, looked=True)

        asked = HumanMessage(f"{turn.question}\n\nWhat was found:\n{found}")
        return _checked(request, self._model, _ANSWER, [asked], may_say, found)


def _checked(
    request: ModelRequest[Any],
    model: BaseChatModel,
    prompt: str,
    messages: list[AnyMessage],
    may_say: Callable[[str], bool],
    otherwise: str,
) -> ModelRequest[Any]:
    return request.override(
        model=CheckedModel(model=model, may_say=may_say, otherwise=otherwise),
        messages=messages,
        tools=[],
        system_message=SystemMessage(prompt),
    )


def _has_web(request: ModelRequest[Any]) -> bool:
    return any(getattr(tool, "name", "") == "search_web" for tool in request.tools)


def _able(request: ModelRequest[Any]) -> str:
    web = " and on the web" if _has_web(request) else ""
    return (
        f"I can look things up in your notes, calendar, mail and files{web}, say how the weather is, "
        "write and delete notes, and add, move and cancel single events."
    )


def _said(text: str) -> ModelResponse[Any]:
    return ModelResponse([AIMessage(text, response_metadata={"finish_reason": "stop"})])


def _at_once(calls: Sequence[Call]) -> list[Call]:
    """Return the first of the ``calls``, up to one that looks up what those before it may change."""
    writes = [place for place, (name, _) in enumerate(calls) if name not in LOOKS_UP]
    reads = (
        place
        for place, (name, _) in enumerate(calls)
        if name in LOOKS_UP and place > min(writes, default=place)
    )
    return [*calls[: next(reads, len(calls))]]


def _called(calls: Sequence[Call]) -> ModelResponse[Any]:
    """Return a message with ``calls``."""
    made = [ToolCall(name=name, args=dict(given), id=f"call_{uuid.uuid4().hex}") for name, given in calls]
    return ModelResponse([AIMessage("", tool_calls=made, response_metadata={"finish_reason": "tool_calls"})])
