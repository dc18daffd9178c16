"""Whether the sides of the engine bench write the same greedy tokens."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from ..common.bench_model import BenchModel
from ..common.prompts import Prompts
from .sides import EngineSide, Messages, Settings, SideName
from .speeds import warm_sides

PROMPTS: Final = 50
"""Whose greedy tokens are compared."""
_TOKENS: Final = 48
EXACT: Final = Settings(
    inference_precision="f32", kv_cache_precision="f32", dynamic_quantization_group_size=0
)
"""Settings under which the sides can be expected to write the same: activations are not quantised."""
_SIDES: Final[tuple[SideName, SideName]] = ("agentrt", "openvino_genai")
_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "search_notes",
        "description": "Search the user's notes for a phrase.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


def greedy_equal_prompts(model: BenchModel) -> int:
    """Return :func:`count_equal` of ``model`` on its prompts."""
    with warm_sides(dict.fromkeys(_SIDES, str(model.path)), EXACT, lambda side: None) as sides:
        return count_equal(sides, model.prompts(2))


def count_equal(sides: Mapping[SideName, EngineSide], prompts: Prompts) -> int:
    """Return how many of :data:`PROMPTS` prompts have equal greedy tokens on both sides.

    Half of the prompts offer a tool, if the model's chat template takes tools.
    """
    rng = random.Random(0)
    takes_tools = sides["agentrt"].takes_tools()
    equal = 0
    for index in range(PROMPTS):
        messages: Messages = [{"role": "user", "content": prompts.take(rng.choice([1, 5, 20, 60, 150]))}]
        tools = [_TOOL] if index % 2 and takes_tools else None
        ours, theirs = (sides[name].greedy_tokens(messages, tools, _TOKENS) for name in _SIDES)
        equal += ours == theirs
    return equal
