"""Opens the model of the assistant. It imports no LangChain, so that a model can be opened before that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from agentrt.runtime import LocalRuntime, OpeningStep, RuntimeConfig


def open_runtime(
    model: str,
    on_step: Callable[[OpeningStep], None] = lambda step: None,
    policy: Literal["agent-xpu", "fcfs"] = "agent-xpu",
    **settings: Any,
) -> LocalRuntime:
    """Load ``"nano"``, a pulled model, the OpenVINO model in a folder or a GGUF file.

    With the ``policy`` ``"fcfs"`` requests are served in order of arrival, for comparison. ``settings`` are
    others of :class:`RuntimeConfig`.
    """
    if model != "nano":
        return LocalRuntime.open(model, RuntimeConfig(policy=policy, **settings), on_step=on_step)
    # On a model as small as nano more threads only wait for each other. Which requests share a batch depends
    # on timing, and in low precision the batch changes the last bits of the logits: the demo promises equal
    # transcripts of nano, so it computes in full precision.
    exact: dict[str, Any] = {"threads": 1, "inference_precision": "f32", "kv_cache_precision": "f32"}
    return LocalRuntime.open(model, RuntimeConfig(policy=policy, **exact, **settings), on_step=on_step)
