"""The sides that the drafting bench compares on one engine: which drafters a request gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .baselines import Baseline, FixedWidthDrafter, SuffixAutomatonDecoding, SuffixDecoding

if TYPE_CHECKING:
    from agentrt.runtime.drafting.drafter import Drafter
    from agentrt.runtime.request.request import Request

OURS: Final = "ours"
VANILLA: Final = "vanilla"
CALIBRATED: Final = "ours and calibration"
REUSING: Final = "ours and reuse"
SAM: Final = "SAM"
SUFFIX_DECODING: Final = "SuffixDecoding"


class Vanilla:
    """How requests are drafted for: not at all, unless a subclass says otherwise."""

    name = VANILLA
    histories: Any = None
    """What takes the place of the runtime's histories of apps; None for no history."""
    follows_grammar = False
    """Whether drafts are completed by what the grammar of an answer forces."""
    verifies_all = False
    """Whether all that is drafted is verified, rather than what the scheduler chooses."""
    most_verified = 10_000
    """Draft tokens of a forward pass, if all are verified."""
    calibrates = False
    """Whether the logits of all tokens of prompts are computed, however long kernels take with them."""
    branches = False
    """Whether requests are drafted for as on an NPU, and branches verified up to the tokens of its pass."""
    app = ""
    """The app of its requests. One of its own has a prefix cache of its own."""

    def begin_app(self) -> None:
        """Forget all earlier requests: the next ones are of an app that has none."""

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """Return the drafters of one request, for which the runtime selects its ``own``."""
        return []


class BaselineSide(Vanilla):
    """A published way to draft; the engine verifies all that it drafts."""

    verifies_all = True

    def __init__(self, name: str, begin: Callable[[], Baseline]) -> None:
        """``begin`` returns the baseline of an app without history."""
        self.name = name
        self._begin = begin
        self._baseline = begin()

    def begin_app(self) -> None:
        self._baseline = self._begin()

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        return [FixedWidthDrafter(self._baseline(request.prompt_token_ids))]


class Ours(Vanilla):
    """The runtime's own drafters."""

    name = OURS
    follows_grammar = True

    def __init__(self) -> None:
        self.begin_app()

    def begin_app(self) -> None:
        from agentrt.runtime.drafting.app_history import AppHistories

        self.histories = AppHistories()

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """See :meth:`Vanilla.drafters`: its own."""
        return own


class FromLogits(Ours):
    """The runtime's own drafters, and on any device those from logits that it has on an NPU."""

    def __init__(self, name: str, *, calibrates: bool = False, reuses: bool = False) -> None:
        """``calibrates`` drafts from the prompt's logits (sd.npu §3.3), ``reuses`` rejected drafts (§3.4)."""
        self.name = name
        self.app = name if calibrates else ""
        self.calibrates = calibrates
        self._reuses = reuses
        super().__init__()

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """See :meth:`Vanilla.drafters`."""
        from agentrt.runtime.drafting.calibration import CalibrationDrafter
        from agentrt.runtime.drafting.reuse import ReuseDrafter

        if self.branches:  # as the runtime has selected them
            return own
        history = self.histories.of(request.prefix_salt, request.app)
        drafters = list(own)
        if self.calibrates:
            drafters.append(CalibrationDrafter(request.prompt_token_ids, history.calibrated))
        if self._reuses:
            drafters.append(ReuseDrafter(history.of_rejected))
        return drafters


def from_logits() -> list[FromLogits]:
    """Return a new side for each way to draft from logits."""
    return [FromLogits(CALIBRATED, calibrates=True), FromLogits(REUSING, reuses=True)]


def baselines() -> list[Vanilla]:
    """Return a new side for each baseline."""
    return [
        BaselineSide(SAM, SuffixAutomatonDecoding),
        BaselineSide(SUFFIX_DECODING, SuffixDecoding),
    ]
