"""Starting a turn beside a request to a speculating chat model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from agentrt import DraftRequest
from agentrt.adapting import Turn
from agentrt.drafts import Speculator

from .bound_tools import BoundTools
from .chat_model_request import ChatModelRequest
from .chat_model_speculator import ChatModelSpeculator
from .guards import guards_in_graph
from .known_values import known_to_turns
from .messages import answered_ids, openai_messages
from .model_method import ModelMethod
from .model_state import ModelState


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
