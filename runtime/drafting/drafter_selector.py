"""The drafters that each request of a runtime gets."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from ..model.tokenizer import Tokenizer
from ..request.request import Request
from .acceptance import AcceptanceModel
from .app_history import AppHistories, AppHistory
from .calibration import CalibrationDrafter
from .drafter import DraftCompleter, Drafter
from .grammar import GrammarDrafter
from .grammar_history import TokenTexts
from .history_store import HistorySaver, HistoryStore
from .prediction import PredictionDrafter
from .retrieval import RetrievalDrafter
from .reuse import ReuseDrafter


@dataclass(frozen=True, slots=True)
class RequestDrafters:
    """What drafts for one request, and learns from its answer."""

    drafters: Sequence[Drafter] = ()
    completer: DraftCompleter | None = None
    history: AppHistory | None = None
    """The history that the answer is added to; None for none."""

    def add_answer(self, output: Future[Any]) -> None:
        """Add the tokens of an output to the history, on the engine thread, which sets ``output``."""
        if self.history is not None and not output.cancelled() and output.exception() is None:
            self.history.add(output.result().token_ids)


class DrafterSelector(Protocol):
    """Selects the drafters of requests. Thread-safe."""

    def select(self, request: Request, tool_cache: Drafter | None) -> RequestDrafters:
        """Return the drafters of one request, once; ``tool_cache`` drafts the calls whose outputs it has."""


@dataclass(frozen=True, slots=True)
class AppDrafterSelector(DrafterSelector):
    """Selects drafters by what a request asks for: the tool cache, a prediction, the history of its app."""

    end_token: int | None
    """The token that is likely to end an answer; None if no end token does."""
    verifies_drafts: bool = True
    """Whether the model can verify drafts, so that predictions are drafted."""
    histories: AppHistories | None = None
    """The histories of apps; None to draft from neither text nor grammar, which learn in them."""
    token_texts: TokenTexts | None = None
    """The texts of tokens; None to draft from no grammar, and calls only in their chat template's style."""
    from_logits: bool = False
    """Whether it drafts from logits, too, of prompts and of rejected drafts: where a pass of several tokens
    takes as long as one, on an NPU (decision 0035)."""

    @property
    def drafts(self) -> bool:
        """Whether it drafts for requests that do not ask for it."""
        return self.histories is not None

    @classmethod
    def open(
        cls,
        tokenizer: Tokenizer,
        *,
        verifies_drafts: bool,
        drafts: bool,
        from_logits: bool,
        history_folder: Path | None,
    ) -> Self:
        """Return a selector for a model; ``drafts`` and ``history_folder`` are settings of the runtime."""
        token_texts = None
        if tokenizer.token_bytes is not None:
            token_texts = TokenTexts(tokenizer.token_bytes, tokenizer.encode)
        if not (verifies_drafts and drafts):
            return cls(tokenizer.end_token, verifies_drafts, token_texts=token_texts)
        saver = None
        if history_folder is not None:
            saver = HistorySaver(HistoryStore(history_folder, tokenizer.fingerprint))
        return cls(tokenizer.end_token, verifies_drafts, AppHistories(saver), token_texts, from_logits)

    def select(self, request: Request, tool_cache: Drafter | None) -> RequestDrafters:
        """See :meth:`DrafterSelector.select`."""
        history = None if self.histories is None else self.histories.of(request.prefix_salt, request.app)
        end_token = self.end_token if self.end_token in request.end_tokens else None
        drafters: list[Drafter] = [] if tool_cache is None else [tool_cache]
        if request.predicted_token_ids and self.verifies_drafts:
            prediction = request.predicted_token_ids[: request.max_total_tokens]
            acceptance = AcceptanceModel() if history is None else history.of_predictions
            drafters.append(PredictionDrafter(prediction, end_token, acceptance))
        if history is None:
            return RequestDrafters(drafters)
        prompt, matcher, completer = request.prompt_token_ids, request.grammar_matcher, None
        drafters.append(
            RetrievalDrafter(prompt, request.max_total_tokens, history, branches=self.from_logits)
        )
        if self.from_logits:
            drafters.append(CalibrationDrafter(prompt, history.calibrated))
            drafters.append(ReuseDrafter(history.of_rejected))
        if matcher is not None and self.token_texts is not None:
            completer = GrammarDrafter(matcher, self.token_texts, prompt, end_token, history.grammar)
        return RequestDrafters(drafters, completer, history)

    def close(self) -> None:
        """Save the histories. Call it when all answers have ended; may be called again."""
        if self.histories is not None:
            self.histories.close()
