"""The embedded default model: a tiny Qwen2-shaped tool caller, its draft, and the recipe that trains them.

It exists so that the demo, the tests and the benches run real inference on any machine without a download.
It is a demonstration model; the model card says what it can and cannot do.
"""

from pathlib import Path

_WEIGHTS = Path(__file__).resolve().parent / "weights"

MODEL_DIRECTORY = _WEIGHTS / "main"
"""The OpenVINO model directory that ``LocalRuntime.open("nano")`` opens."""

DRAFT_DIRECTORY = _WEIGHTS / "draft"
"""The OpenVINO model directory of the draft: half the size, same tokenizer and chat template."""

__all__ = ["DRAFT_DIRECTORY", "MODEL_DIRECTORY"]
