"""From dialogues to the exact text the model reads: what ``chat_template.jinja`` renders, in Python.

Training renders with this module, everybody else with the template in the model directory; a test keeps
the two equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .answers import to_json
from .turns import Dialogue, Step

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NAME_OPENS, ARGUMENTS_OPEN = '{"name": "', '", "arguments": {'
MARKUP_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    # One token before every tool's name, in the list as in a call: what came after it before are then exactly
    # the names to choose from, which a single induction head finds.
    NAME_OPENS,
    ARGUMENTS_OPEN,
)


class Segment(NamedTuple):
    """A run of text; ``learned`` marks what the assistant writes (the only part with a loss)."""

    text: str
    learned: bool
    facts: tuple[str, ...] = ()
    """What an answer takes word for word from a tool's result."""


def tool_lines(schema: Mapping[str, Any]) -> str:
    """One tool as the system prompt shows it: what it does, then a call of it with types as values."""
    function = schema["function"]
    parameters = function.get("parameters", {})
    required = parameters.get("required", [])
    shown = {
        name if name in required else f"{name}?": "|".join(map(str, spec["enum"]))
        if "enum" in spec
        else str(spec.get("type", "any"))
        for name, spec in parameters.get("properties", {}).items()
    }
    return f"{function.get('description', '')}\n{to_json({'name': function['name'], 'arguments': shown})}"


def system_block(system: str, tools: Iterable[Mapping[str, Any]]) -> str:
    """The system turn with its tools."""
    lines = "".join("\n" + tool_lines(tool) for tool in tools)
    return f"<|im_start|>system\n{system}" + (f"\n<tools>{lines}\n</tools>" if lines else "") + "<|im_end|>\n"


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool call as the assistant writes it (Hermes form)."""
    return f'<tool_call>\n{{"name": {to_json(name)}, "arguments": {to_json(dict(arguments))}}}\n</tool_call>'


def calls_text(steps: Iterable[Step]) -> str:
    """One message of the assistant that makes the calls of ``steps``."""
    return "\n".join(call_text(step.name, step.arguments) for step in steps)


def results_text(steps: Iterable[Step]) -> str:
    """What the calls of one message returned, each in a turn of its own."""
    return "".join(
        f"<|im_start|>user\n<tool_response>\n{step.result}\n</tool_response><|im_end|>\n" for step in steps
    )


def segments(dialogue: Dialogue) -> list[Segment]:
    """The whole dialogue as text, assistant turns marked as learned."""
    result = [Segment(system_block(dialogue.system, [tool.schema() for tool in dialogue.tools]), False)]
    for turn in dialogue.turns:
        result.append(Segment(f"<|im_start|>user\n{turn.request}<|im_end|>\n<|im_start|>assistant\n", False))
        for steps in turn.messages:
            result.append(Segment(calls_text(steps) + "<|im_end|>", True))
            if dialogue.calls_only:
                break
            result.append(Segment(f"\n{results_text(steps)}<|im_start|>assistant\n", False))
        if not (turn.steps and dialogue.calls_only):
            result.append(Segment(turn.answer + "<|im_end|>", True, turn.facts))
        result.append(Segment("\n", False))
    return result
