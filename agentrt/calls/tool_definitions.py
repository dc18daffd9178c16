"""The tools that a request offers, as the check of the calls that a model writes without a grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .argument_types import ArgumentTypes, UnfitArgumentsError
from .events import ToolCall
from .format import ToolCallFormat
from .json_formats import JSON_MESSAGE


class ToolDefinitions:
    """Checks calls against the definitions of one request, and repairs them where that is unambiguous.

    Repaired are a name that is one edit (or only upper and lower case) away from exactly one offered name,
    and numbers and booleans that are written as texts. Not thread-safe; one per answer.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]], *, trusted: ToolCallFormat | None = None) -> None:
        """``tools`` are function definitions in OpenAI's shape.

        A text in the format ``trusted``, which the model was trained to write calls in, is a call even if it
        does not fit: the agent answers it with an error. In other formats it is text, and JSON without
        markup is never trusted.
        """
        functions = [tool["function"] for tool in tools]
        self._types = {each["name"]: ArgumentTypes(each.get("parameters")) for each in functions}
        self._trusted = None if trusted is JSON_MESSAGE else trusted
        self.repaired = 0
        """The number of calls that were repaired."""

    def check(self, call: ToolCall, format: ToolCallFormat) -> ToolCall | None:
        """Return the call, repaired if necessary; None if its text is to be treated as text."""
        unusable = call if format is self._trusted else None
        name = self._offered_name(call.name)
        if name is None:
            return unusable
        try:
            arguments, repairs = self._types[name].fit(call.arguments, untyped=format.untyped_arguments)
        except UnfitArgumentsError:
            return unusable
        self.repaired += bool(repairs) or name != call.name
        return ToolCall(name, arguments, call.id)

    def offers(self, name: str) -> bool:
        """Whether a call with this name is one of an offered tool, perhaps after a repair."""
        return self._offered_name(name) is not None

    def _offered_name(self, name: str) -> str | None:
        if name in self._types:
            return name
        near = [each for each in self._types if each.lower() == name.lower()]
        near = near or [each for each in self._types if _one_edit_apart(each, name)]
        return near[0] if len(near) == 1 else None


def _one_edit_apart(one: str, other: str) -> bool:
    """Whether one insertion, deletion, substitution or transposition makes the texts equal."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1:
        return False
    differing = (at for at, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1])
    same = next(differing, len(short))
    rest, others = short[same:], long[same:]
    if len(short) < len(long):
        return rest == others[1:]
    return rest[1:] == others[1:] or (rest[:2] == others[1::-1] and rest[2:] == others[2:])
