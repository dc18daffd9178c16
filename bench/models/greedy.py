"""Compares greedy answers with those of OpenVINO GenAI on the same converted model, in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from ..common.process import SideProcess
from .runtime_side import RuntimeSide, use_cache

PROMPTS: Final = (
    "Write a short poem about rain.",
    "def fibonacci(n):",
    "What is 7 times 8? Answer briefly.",
    "Translate to German, French and Japanese: Good morning, how are you?",
    'Return {"city": ..., "days": ...} as JSON for three days in Oslo.',
    "Explain how a hash table works, with an example in Python.",
    "Plan a weekend in Lisbon 🇵🇹 in a table with times, places and prices in €.",
    "Name all planets\n\n1. Mercury\n2. Venus\n3.",
)
"""Prose, code, numbers, other scripts, JSON, markup."""
_EXACT: Final[dict[str, Any]] = {
    "inference_precision": "f32",
    "kv_cache_precision": "f32",
    "dynamic_quantization_group_size": 0,
}
"""Only in float32 must two ways to compute the same model prefer the same token every time."""


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """How far two answers to one prompt are equal, in characters."""

    prompt: str
    characters: int
    equal: int

    @property
    def is_equal(self) -> bool:
        """Whether the answers are equal to their ends."""
        return self.equal == self.characters


def compare_greedy_answers(
    model: str, cache: str, prompts: int, tokens: int, progress: Callable[[str], None]
) -> list[GreedyAnswer]:
    """Ask for ``tokens`` tokens to each of the first ``prompts`` prompts, one side after the other."""
    asked = PROMPTS[:prompts]
    progress(f"greedy answers of {model} in float32")
    with RuntimeSide(model, cache, **_EXACT) as runtime:
        ours = [runtime.text(prompt, tokens) for prompt in asked]
    with SideProcess(_GenAI, model, cache) as genai:
        theirs = [str(genai.call("text", prompt, tokens)) for prompt in asked]
    return [_compare(*each) for each in zip(asked, ours, theirs, strict=True)]


def _compare(prompt: str, ours: str, theirs: str) -> GreedyAnswer:
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    return GreedyAnswer(prompt, max(len(ours), len(theirs)), equal)


class _GenAI:
    """OpenVINO GenAI's stateful pipeline on the converted model."""

    def __init__(self, model: str, cache: str) -> None:
        import openvino_genai

        from agentrt.runtime import RuntimeConfig
        from agentrt.runtime.model.directory import open_model_directory

        use_cache(cache)
        directory = str(open_model_directory(model).path)
        self._pipeline = openvino_genai.LLMPipeline(
            directory, "CPU", **RuntimeConfig(**_EXACT).device_properties()
        )

    def text(self, prompt: str, max_tokens: int) -> str:
        import openvino_genai

        history = openvino_genai.ChatHistory([{"role": "user", "content": prompt}])
        answer = self._pipeline.generate(history, max_new_tokens=max_tokens, do_sample=False)
        return str(answer.texts[0])
