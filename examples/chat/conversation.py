"""The turns of a conversation, of which the latest go into the next request."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import uuid4

import anyio.to_thread
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage

from agentrt.errors import PromptTooLongError
from agentrt.examples.assistant.results import Made
from agentrt.examples.assistant.view import TurnView
from agentrt.examples.personal_assistant import Agent, ask

# A quarter of the model's context may be history; the rest is for instructions, tools and the new turn. Every
# tokenizer has at least about two characters per token. Of earlier turns a model is shown no calls: steering
# reads them, which needs no context.
_HISTORY_SHARE = 1 / 4
_CHARACTERS_PER_TOKEN = 2
_UNASKED: Final = "unasked"
"""The mark of a question that was not asked."""


class KeepsTurns(Protocol):
    """Keeps the turns of a conversation beyond the process."""

    def save(self, turns: Sequence[Sequence[AnyMessage]]) -> None:
        """Replace what is kept. Called on another thread; raises nothing."""


@dataclass
class Totals:
    """Sums over the answered turns of a conversation."""

    answers: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that were not computed, because their keys and values were in memory."""
    answer_tokens: int = 0

    def add(self, seconds: float, messages: list[AnyMessage]) -> None:
        """Add a turn that took ``seconds`` and added ``messages``."""
        self.answers += 1
        self.seconds += seconds
        for message in messages:
            if isinstance(message, AIMessage) and (usage := message.usage_metadata) is not None:
                self.prompt_tokens += usage["input_tokens"]
                self.cached_tokens += usage.get("input_token_details", {}).get("cache_read", 0)
                self.answer_tokens += usage["output_tokens"]


class Conversation:
    """A conversation with an agent. A turn that fails, is stopped or has no answer leaves no trace in it."""

    def __init__(
        self,
        agent: Agent,
        context_tokens: int,
        saved: KeepsTurns | None = None,
        turns: Sequence[list[AnyMessage]] = (),
    ) -> None:
        """``context_tokens`` is the length of the model's context.

        The turns are kept in ``saved`` if it is given. ``turns`` were taken earlier.
        """
        self._agent = agent
        self._characters = int(context_tokens * _HISTORY_SHARE * _CHARACTERS_PER_TOKEN)
        self._saved = saved
        self._turns = list(turns)
        self.totals = Totals()

    async def ask(self, text: str, view: TurnView) -> list[AnyMessage]:
        """Take a turn and return the messages that it added behind the question.

        Raises:
            PromptTooLongError: the turn does not fit the model's context; all earlier turns are forgotten.
            RequestError: the turn cannot be answered.
        """
        question = HumanMessage(text)
        started = time.perf_counter()
        try:
            messages = await ask(self._agent, [*self._recent(), question], view)
        except PromptTooLongError:
            self._turns.clear()
            await self._save()
            raise
        if messages[-1].text.strip():  # what is silent once is silent again
            self._turns.append([question, *messages])
            await self._save()
        self.totals.add(time.perf_counter() - started, messages)
        return messages

    def tell(self, text: str, calls: Sequence[Made]) -> None:
        """Have told ``text`` unasked, as if ``calls`` had been made for it; it is kept with the next turn.

        It stands before the last answer, which may be a question that the next message answers.
        """
        made = [
            ToolCall(name=call.name, args=dict(call.arguments), id=f"call_{uuid4().hex}") for call in calls
        ]
        called: list[AnyMessage] = [
            AIMessage("", tool_calls=made),
            *(
                ToolMessage(call.result, tool_call_id=each["id"] or "", name=call.name)
                for each, call in zip(made, calls, strict=True)
            ),
        ]
        if not self._turns:  # models want to be asked first
            asked = HumanMessage("What is new?", additional_kwargs={_UNASKED: True})
            self._turns.append([asked, *called, AIMessage(text)])
            return
        *before, answer = self._turns[-1]
        told = answer.model_copy(update={"content": f"{text}\n\n{answer.text}"})
        self._turns[-1] = [*before, *called, told]

    def __len__(self) -> int:
        """Return the number of turns, of which the latest go into the next request."""
        return len(self._turns)

    def forget(self) -> None:
        """Begin a new conversation."""
        self._turns.clear()
        if self._saved is not None:
            self._saved.save(())

    @property
    def turns(self) -> list[list[AnyMessage]]:
        """The messages of each turn, the question first."""
        return self._turns

    @property
    def last(self) -> tuple[str, str] | None:
        """The last question and its answer; None if nothing was asked yet."""
        if not self._turns or _UNASKED in self._turns[-1][0].additional_kwargs:
            return None
        return self._turns[-1][0].text, self._turns[-1][-1].text

    async def _save(self) -> None:
        if self._saved is not None:
            await anyio.to_thread.run_sync(self._saved.save, self._turns)

    def _recent(self) -> list[AnyMessage]:
        """Return the latest whole turns that fit into the history's share of the context."""
        kept: list[AnyMessage] = []
        room = self._characters
        for turn in reversed(self._turns):
            room -= sum(len(message.text) for message in turn if not isinstance(message, ToolMessage))
            if room < 0:
                break
            kept = [*turn, *kept]
        return kept


class SilentView:
    """Prints nothing."""

    def token(self, text: str) -> None:
        """Print nothing."""

    def message(self, message: AnyMessage) -> None:
        """Print nothing."""
