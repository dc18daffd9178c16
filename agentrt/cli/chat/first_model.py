"""The model of a chat that names none: the one that the user has chosen on the first start, or nano."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from ...errors import AgentRTError
from ..models import pull
from ..output import say

if TYPE_CHECKING:
    from agentrt.runtime.model.hub.recommended import RecommendedModel

NANO: Final = "nano"
_LEAST_RATE: Final = 8.0
"""Tokens a second below which an answer is slower than reading it aloud."""
_MEMORY_SHARE: Final = 0.5
"""Of the memory that is available: weights are held beside their keys, values and everything else."""
_INTRODUCTION: Final = """\
This is nano, a model of a million parameters that knows how to call the assistant's tools, and little else.
Better answers: {model.name}
({model.gigabytes:.1f} GB, licence {model.license}; some {rate:.0f} tokens a second on this machine)"""


def recommend(memory_bytes: int | None, bytes_per_s: float) -> tuple[RecommendedModel, float] | None:
    """Return the largest recommended model for an assistant on this machine, and its tokens a second.

    It calls tools and answers at once, without reasoning first. A token reads all of its weights. None if
    none fits the memory that is available.
    """
    from agentrt.runtime.model.hub.recommended import RECOMMENDED

    rated = [
        (model, bytes_per_s / (model.gigabytes * 1e9))
        for model in RECOMMENDED
        if "reasons first" not in model.good_for
        and ("tool calls" in model.good_for or model is RECOMMENDED[0])
        and (memory_bytes is None or model.gigabytes * 1e9 <= memory_bytes * _MEMORY_SHARE)
    ]
    quick = [each for each in rated if each[1] >= _LEAST_RATE]
    return quick[-1] if quick else rated[0] if rated else None


def model_of_chat(*, asks: bool) -> str:
    """Return the model that the user has chosen, asked once if ``asks``; nano until then.

    A download that fails is said, and asked for again next time.
    """
    from agentrt.runtime.model.hub.pulled import find_pulled

    chosen = _chosen()
    if chosen is not None and (chosen == NANO or find_pulled(chosen)):
        return chosen
    return _ask() if asks else NANO


def _ask() -> str:
    from agentrt.runtime.model.hub.pulled import find_pulled
    from agentrt.runtime.xpu.machine import available_memory, measure_read_bandwidth

    found = recommend(available_memory(), measure_read_bandwidth())
    if found is None:
        return NANO
    model, rate = found
    say(_INTRODUCTION.format(model=model, rate=rate))
    here = find_pulled(model.name) is not None
    try:
        agreed = typer.confirm("It is on this machine. Use it?" if here else "Download it?", err=True)
    except typer.Abort:  # Ctrl-C and Ctrl-D are no answer
        say("")
        return NANO
    if not agreed:
        say("Another time: agentrt models --recommended")
    elif not here:
        try:
            pull(model.name)
        except (AgentRTError, KeyboardInterrupt) as error:
            say(f"{error or 'The download was stopped; it goes on next time.'}")
            return NANO
    return _remember(model.name if agreed else NANO)


def _file() -> Path:
    import platformdirs

    return platformdirs.user_state_path("agentrt") / "chat_model"


def _chosen() -> str | None:
    try:
        return _file().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _remember(name: str) -> str:
    try:
        _file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _file().write_text(name + "\n", encoding="utf-8")
    except OSError as error:
        say(f"The choice is not remembered: {_file()} cannot be written ({error.strerror}).")
    return name
