"""The steps of opening a model, for those who show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpeningStep:
    """What is being done while a model opens."""

    name: str
    """``compiling`` products of the weights of GGUF files, once for a machine; ``converting`` such a file,
    ``measuring`` the profile, with what is measured, or ``loading``."""
    share: float | None = None
    """How much of the step is done, from 0 to 1; None where that is not known."""


OnOpeningStep = Callable[[OpeningStep], None]
"""Called on the thread that opens the model when a step begins or gets on. Its errors end the opening."""


def ignore_step(step: OpeningStep) -> None:
    """Do nothing."""
