"""Checks of the types of arguments that users pass in."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from .calls import ToolCall
from .errors import ConfigurationError, InvalidRequestError

__all__ = ["check_collection", "check_field", "check_setting"]

Kinds = type | tuple[type, ...]


def check_setting(name: str, value: object, kinds: Kinds, wanted: str) -> None:
    """Raise :class:`ConfigurationError` unless ``value`` is an instance of ``kinds``.

    ``name`` is the parameter's, and ``wanted`` says what to give. The message contains the value's type, not
    the value, which may be large or secret.
    """
    if not isinstance(value, kinds):
        raise ConfigurationError(f"{name}: {_kind_of(value)} cannot be used. Give {wanted}.")


def check_field(name: str, value: object, kinds: Kinds, wanted: str) -> None:
    """:func:`check_setting` for a field of a request: raise :class:`InvalidRequestError`."""
    if not isinstance(value, kinds):
        raise InvalidRequestError(name, f"{_kind_of(value)} cannot be used. Give {wanted}.")


def check_collection(name: str, value: object, wanted: str) -> None:
    """Raise :class:`ConfigurationError` unless ``value`` holds several objects in a list, say."""
    several = isinstance(value, (Collection, Iterator)) and not isinstance(value, (str, bytes, Mapping))
    check_setting(name, value, object if several else (), wanted)


def check_messages(field: str, value: Sequence[Mapping[str, Any]], wanted: str) -> None:
    """Raise :class:`InvalidRequestError` unless ``value`` is a sequence of mappings."""
    check_field(field, value, () if isinstance(value, (str, bytes)) else Sequence, f"a list of {wanted}")
    for each in value:
        if type(each) is not dict:  # quicker than a check against a protocol
            check_field(field, each, Mapping, f"{wanted}, as dicts")


def check_call(field: str, call: object) -> None:
    """Raise :class:`InvalidRequestError` unless ``call`` is a tool call with a name and parsed arguments."""
    check_field(field, call, ToolCall, "a ToolCall(name, arguments, id)")
    assert isinstance(call, ToolCall)
    check_field("name", call.name, str, "the tool's name")
    check_field("arguments", call.arguments, Mapping, "a dict; of JSON text, what json.loads() returns")
    check_field("id", call.id, Hashable, "the call's id as a string, or None")


def _kind_of(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of type {type(value).__name__}"
