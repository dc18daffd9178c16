"""Whether every side gives the tokens of plain decoding, in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .answering import DRAFTS, AnsweringRuntime
from .prompt_sets import PromptSet
from .sides import Side, Vanilla

EXACT: Final[dict[str, Any]] = {
    "inference_precision": "f32",
    "kv_cache_precision": "f32",
    "dynamic_quantization_group_size": 0,
}
"""Settings in which one token at a time and several at once must agree (decision 0028)."""


def share_of_identical_answers(
    model: str,
    sets: Sequence[PromptSet],
    sides: Sequence[Side],
    max_tokens: int,
    memory_bytes: int,
    progress: Callable[[str], None],
) -> float:
    """Return which share of the greedy answers to the first prompt of each set has vanilla's tokens."""
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    equal = tried = 0
    config = RuntimeConfig(memory_bytes=memory_bytes, **EXACT, **DRAFTS)
    with LocalRuntime.open(model, config) as opened:
        runtime = AnsweringRuntime(opened)
        for each in sets:
            progress(f"{each.name}, in float32")
            prompt = each.prompts[0]
            expected = runtime.answer(Vanilla(), prompt, max_tokens).token_ids
            for side in sides:
                side.begin_app()
                equal += runtime.answer(side, prompt, max_tokens).token_ids == expected
                tried += 1
    return equal / max(1, tried)
