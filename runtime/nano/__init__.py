"""The embedded default model: the weights of a tiny Qwen2-shaped tool caller and of its draft model.

The demo, the tests and the benches run real inference with it on any machine without a download. It is a
demonstration model; ``MODEL_CARD.md`` states its scores and limits. ``training/nano`` in the repository has
the recipe that trains it; it is not part of the installed package.
"""

from pathlib import Path

_WEIGHTS = Path(__file__).resolve().parent / "weights"

MODEL_DIRECTORY = _WEIGHTS / "main"
"""The OpenVINO model directory that ``LocalRuntime.open("nano")`` opens."""

DRAFT_DIRECTORY = _WEIGHTS / "draft"
"""The OpenVINO model directory of the draft: half the size, same tokenizer and chat template."""

__all__ = ["DRAFT_DIRECTORY", "MODEL_DIRECTORY"]
