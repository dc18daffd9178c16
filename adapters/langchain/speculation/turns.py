"""The turns beside one request to a speculating chat model, and chat models as predictors in them."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentrt import DraftRequest
from agentrt.adapting import Turn
from agentrt.calls import ToolCall
from agentrt.drafts import DraftCharge, Speculator, estimated_tokens, merge, run_in_thread
from agentrt.toolcache import FinishedCall, TakePrediction, TakeResult, offering_results

from ..guards.guards import guards_in_graph
from ..messages import answered_ids, openai_messages
from ..tools.known_values import known_to_turns
from .bound_tools import BoundTools
from .chat_model_request import ChatModelRequest, ModelMethod
from .model_state import ModelState, inside_turn_of


@dataclass(frozen=True)
class TurnStarter:
    """Starts the turns of one request by ``method`` of a speculating chat model.

    ``offered`` are the names of the tools that the request offers; None if they cannot be read.
    """

    state: ModelState
    tools: BoundTools
    method: ModelMethod
    offered: Collection[str] | None

    def start(
        self, messages: Sequence[BaseMessage], ahead: Callable[[], ChatModelRequest | None] | None = None
    ) -> Turn:
        """Start a turn on this history; ``ahead`` returns the request, if the next one may be sent ahead."""
        answered, rejected = answered_ids(messages)
        with known_to_turns():
            return self.state.turns.start(
                lambda: DraftRequest(openai_messages(messages), self.tools.schemas),
                tools=self.tools.speculable,
                offered=self.offered,
                guards=functools.partial(guards_in_graph, self.tools.speculable),
                answered=answered,
                rejected=rejected,
                blocking=not self.method.is_async,
                predictors=self._predictors_for(messages),
                ahead=ahead,
            )

    def model_request(
        self,
        model: Any,
        send: Callable[..., Any],
        messages: Sequence[BaseMessage],
        options: Mapping[str, Any],
    ) -> ChatModelRequest:
        """Return the request as one that others can be sent ahead after."""
        kept = {name: value for name, value in options.items() if name != "run_manager"}
        return ChatModelRequest(
            model=model,
            method=self.method,
            send=send,
            model_key=model._get_llm_string(**kept),
            messages=list(messages),
            options=kept,
            schemas=self.tools.schemas,
            predictors_for=self._predictors_for,
        )

    def _predictors_for(self, messages: Sequence[BaseMessage]) -> list[Speculator]:
        return [
            ChatModelSpeculator(predictor, messages, self.tools.given, use_async=self.method.is_async)
            if isinstance(predictor, BaseChatModel)
            else predictor
            for predictor in self.state.turns.predictors
        ]


class TurnSequence(AbstractContextManager["TurnSequence"]):
    """The turn beside a request, and those that follow it within the same answer.

    The next turn starts where the server has answered the calls of the one before. If the server never
    does, there is one turn.
    """

    def __init__(self, first: Turn, starter: TurnStarter, messages: Sequence[BaseMessage]) -> None:
        """``first`` is the turn on the history ``messages``; ``starter`` starts those on longer ones."""
        self.current = first
        """The turn of the calls that come next."""
        self._starter = starter
        self._outside = copy_context()
        self._messages = list(messages)
        self._take: TakeResult | None = None
        self._take_prediction: TakePrediction | None = None

    def __exit__(self, *_: object) -> None:
        """Discard the speculations of the current turn if it was not bound."""
        self.current.discard()

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Run the model's own code in this block: it starts no turns, and may take speculated results."""
        with inside_turn_of(self._starter.state), offering_results(self):
            yield

    def bind(self, message: BaseMessage) -> None:
        """Bind the last turn to the calls that the agent has to make."""
        self.current.bind(tool_calls(message))

    def take_results(self, take: TakeResult) -> None:
        """Hand the results of speculations to ``take``, in this turn and those that follow."""
        self._take = take
        self.current.on_finished(self._submit)

    def take_predictions(self, take: TakePrediction) -> None:
        """Hand predicted calls to ``take``, in this turn and those that follow."""
        self._take_prediction = take
        self.current.on_predicted(take)

    def answered(self, calls: Sequence[tuple[ToolCall, str]]) -> None:
        """End the current turn, whose calls the server has answered, and start the next."""
        self.current.bind_answered([call for call, _ in calls])
        made: Any = [{"name": call.name, "args": dict(call.arguments), "id": call.id} for call, _ in calls]
        self._messages.append(AIMessage("", tool_calls=made))
        self._messages += [ToolMessage(output, tool_call_id=str(call.id)) for call, output in calls]
        # This runs in the model's own code, which starts no turns: the context before it does.
        self.current = self._outside.run(self._starter.start, list(self._messages))
        self.current.on_finished(self._submit)
        if self._take_prediction is not None:
            self.current.on_predicted(self._take_prediction)

    def _submit(self, result: FinishedCall) -> None:
        if self._take is not None and result.call.name in self._starter.tools.submittable:
            self._take(result)


class ChatModelSpeculator:
    """Lets a (smaller) chat model predict the main model's next call in one turn.

    Its requests have no callbacks, so that they appear neither in the user's stream nor in the user's traces
    and token counts. Each is charged when it is sent, with one input token for each four bytes of its
    messages and tools, and corrected by the usage in its answer.
    """

    def __init__(
        self, model: BaseChatModel, messages: Sequence[BaseMessage], tools: Sequence[Any], *, use_async: bool
    ) -> None:
        """``use_async`` says that the turn runs on the caller's event loop, to which async clients belong."""
        self.name = type(model).__name__
        self._model = model
        self._messages = list(messages)
        self._tools = tools
        self._use_async = use_async

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of ``request.samples`` answers as they come; equal ones may repeat."""
        model = self._model.bind_tools(self._tools)
        input_tokens = estimated_tokens(request)

        def charged(message: AIMessage, charge: DraftCharge) -> AIMessage:
            if (usage := message.usage_metadata) is not None:
                charge.correct(usage["input_tokens"], usage["output_tokens"])
            return message

        async def sample() -> AsyncIterator[AIMessage]:
            charge = DraftCharge(request)
            if not charge.send(input_tokens):
                return
            if self._use_async:
                yield charged(await model.ainvoke(self._messages, {"callbacks": []}), charge)
                return
            # In the thread, because a request that is cut off is answered and billed all the same.
            yield await run_in_thread(
                lambda: charged(model.invoke(self._messages, {"callbacks": []}), charge),
                name=f"agentrt draft {self.name}",
            )

        async with aclosing(merge([sample() for _ in range(request.samples)], errors_last=True)) as answers:
            async for _, message in answers:
                for call in tool_calls(message):
                    yield call


def tool_calls(message: BaseMessage) -> list[ToolCall]:
    """Return the well-formed tool calls of a model's answer."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [ToolCall(call["name"], call["args"], call["id"]) for call in calls]
