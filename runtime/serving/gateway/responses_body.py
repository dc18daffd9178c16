"""Requests for responses by apps that an engine sees as one client: which stored things they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..http.errors import ApiError

_CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "message": ("content",),
    "function_call": ("arguments",),
    "function_call_output": ("output",),
    "custom_tool_call": ("input",),
    "custom_tool_call_output": ("output",),
    "local_shell_call": ("action",),
    "local_shell_call_output": ("output",),
    "shell_call": ("action",),
    "shell_call_output": ("output",),
    "apply_patch_call": ("operation",),
    "apply_patch_call_output": ("status",),
    "reasoning": ("content", "encrypted_content"),
    "compaction": ("encrypted_content",),
}
"""Where an item of each type has its content. An engine looks up the id of an item without it."""
_LOOKED_UP_IF_EMPTY: Final = ("reasoning", "compaction")
_CLIENTS_TOOLS: Final = ("function", "custom")
_NAMES: Final = frozenset(
    {
        "container",
        "container_id",
        "conversation",
        "environment",
        "input",
        "previous_response_id",
        "request_id",
        "tools",
        "type",
    }
).union(*_CONTENT.values())


def previous_response(fields: Mapping[str, Any]) -> str | None:
    """Return the id of the response that a request with these fields continues; None if it continues none.

    Raises:
        ApiError: 400, there can be no such response, or a field's name is not in lower case; 403, a field
            names something else that may be another app's.
    """
    _check_names(fields)
    for name in ("conversation", "request_id"):
        if fields.get(name) is not None:
            raise inseparable(f"{name}: it may name", "Leave it out, or give", name)
    for index, item in enumerate(_list(fields.get("input"))):
        if isinstance(item, dict) and not _has_its_content(item):
            field = f"input[{index}]"
            raise inseparable(f"{field}: its id may name", "Send the item's content, or give", field)
    for index, tool in enumerate(_list(fields.get("tools"))):
        if isinstance(tool, dict) and _names_container(tool):
            field = f"tools[{index}]"
            raise inseparable(f"{field}: its container may be", "Name none, or give", field)
    previous = fields.get("previous_response_id")
    if not isinstance(previous, str | None):
        raise previous_not_found()
    return previous


def previous_not_found() -> ApiError:
    """Return the error for a response to continue that the app has not made."""
    return ApiError(
        400,
        "previous_response_id: there is no such response, or this gateway knows it no longer. Send the whole "
        "conversation.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def inseparable(problem: str, advice: str, param: str | None = None) -> ApiError:
    """Return the error for what could reach another app's at an engine that sees all apps as one client."""
    return ApiError(
        403,
        f"{problem} what another app has stored, since the engine sees all apps of this gateway as one "
        f"client. {advice} each app a gateway of its own, with an --upstream-key-file of its own.",
        param=param,
        code="apps_share_engine_key",
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check_names(fields: Mapping[str, Any]) -> None:
    """Refuse names that some engines take for a checked one: those written in Go ignore the case."""
    for name in fields:
        if name not in _NAMES and name.casefold() in _NAMES:
            raise ApiError(
                400, f"there is no field {name!r}. Write it in lower case.", param=name, code="invalid_value"
            )


def _has_its_content(item: Mapping[str, Any]) -> bool:
    """Whether an item of the input needs nothing that is stored at the engine."""
    _check_names(item)
    kind = item.get("type") or "message"
    names = _CONTENT.get(kind, ()) if isinstance(kind, str) else ()
    if kind in _LOOKED_UP_IF_EMPTY:
        return any(item.get(name) for name in names)
    return any(item.get(name) is not None for name in names)


def _names_container(tool: Mapping[str, Any]) -> bool:
    """Whether a tool that the engine runs names the container in which it runs."""
    _check_names(tool)
    if tool.get("type") in _CLIENTS_TOOLS:
        return False
    environment = tool.get("environment")
    if isinstance(environment, dict):
        _check_names(environment)
        return environment.get("container_id") is not None
    return isinstance(tool.get("container"), str)
