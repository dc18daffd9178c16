"""Tools of MCP servers: what a server says of them, and how one is run speculatively.

Versions 1 and 2 of the package ``mcp`` write the names of fields in two ways.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agentrt.adapting import Invocation, SpeculableOptions
from agentrt.errors import ConfigurationError, SpeculationError


def check_trusted(trusted: object) -> None:
    """Raise :class:`ConfigurationError` unless ``trusted`` is True: hints are the server's own claims."""
    if trusted is not True:
        raise ConfigurationError(
            "an untrusted server can claim anything of its tools. Pass trusted=True if you trust it, or "
            "declare the tools that you know to change nothing with @speculable."
        )


def only_reads(hints: object) -> bool:
    """Whether a tool's annotations, or a mapping with them, say that it changes nothing."""
    return _hint(hints, "read_only_hint", "readOnlyHint")


def options_of(hints: object, given: Mapping[str, Any]) -> SpeculableOptions:
    """Return the options ``given`` for all tools, for one with these annotations.

    A tool of an open world passes its arguments on to others. The protocol takes a missing hint for that,
    too; but then nearly every tool of a trusted server would.
    """
    return SpeculableOptions(**{"discloses": _hint(hints, "open_world_hint", "openWorldHint"), **given})


def _hint(hints: object, *names: str) -> bool:
    found = hints if isinstance(hints, Mapping) else {name: getattr(hints, name, None) for name in names}
    return any(found.get(name) is True for name in names)


def bind(arguments: Mapping[str, Any]) -> Invocation:
    """Return the call of a server's tool with these arguments, as they are."""
    # The server validates the arguments: its error is a result that the model must see.
    return Invocation(kwargs={"arguments": dict(arguments)}, named=arguments)


async def speculative_result(
    call: Callable[[str, dict[str, Any]], Awaitable[Any]], name: str, arguments: dict[str, Any]
) -> Any:
    """Return the result of a speculative call by ``call``.

    Raises:
        SpeculationError: the tool failed, or the server asks the user for something.
    """
    result = await call(name, arguments)
    failed = getattr(result, "is_error", getattr(result, "isError", False))
    if failed or type(result).__name__ == "InputRequiredResult":
        raise SpeculationError(
            f"{name} failed or needs the user's input. It runs again when the model calls it."
        )
    return result
