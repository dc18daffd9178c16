"""What compressed contexts cost tool calls: BFCL's tasks, whose prompts are stored and loaded first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from ..engines.local import wait_until_stored
from ..models.bfcl import Task
from .accuracy import RATIO
from .open_runtime import forget_cached, open_loading

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime

_ANSWER_TOKENS: Final = 256


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Tasks that were solved with prompts from the arena, and with prompts that had been compressed."""

    tasks: int
    plain: int
    compressed: int

    @property
    def loss_points(self) -> float:
        """By how many percentage points fewer are solved."""
        return 100 * (self.plain - self.compressed) / self.tasks


def measure_tool_calls(
    model: str, tasks: Mapping[str, Sequence[Task]], progress: Callable[[str], None]
) -> ToolCalls:
    """Answer every task twice: with a prompt that is computed, and with one that is loaded, compressed."""
    everything = [task for group in tasks.values() for task in group]
    plain = compressed = 0
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        open_loading(model, Path(folder), context_compression=RATIO) as runtime,
    ):
        for number, task in enumerate(everything, 1):
            progress(f"tool calls with compressed prompts, task {number} of {len(everything)}")
            plain += _solved(runtime, task, "")
            app = f"task {number}"
            runtime.generate(task.messages, tools=task.tools, app=app, max_tokens=1)
            wait_until_stored(runtime)
            forget_cached(runtime)
            compressed += _solved(runtime, task, app)
    return ToolCalls(len(everything), plain, compressed)


def _solved(runtime: LocalRuntime, task: Task, app: str) -> bool:
    options: dict[str, Any] = {"tools": task.tools, "app": app, "max_tokens": _ANSWER_TOKENS}
    made = runtime.generate(task.messages, temperature=0, **options)
    return task.solved_by(made.tool_calls)
