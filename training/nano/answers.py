"""The answer to a tool's result, which follows from the result alone.

Whatever a tool returns is answered by one rule (:func:`stated`): what an object holds is named with its keys,
at any depth; a list is listed; text is quoted; an error is reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Answer = tuple[str, tuple[str, ...]]
"""The answer, and what of the value it must contain."""

_NOTHING: Answer = ("I found nothing.", ("nothing",))
_REASONS = ("error", "message", "reason", "detail", "details", "description")
_FLAGS = ("ok", "success", "done", "status", "result")
_FINE = (True, "ok", "OK", "done", "success", "accepted", "created", "queued")


def to_json(value: object) -> str:
    """JSON as tools print it: spaces after separators, unicode as it is."""
    return json.dumps(value, ensure_ascii=False)


def stated(value: object) -> Answer:
    """The answer that states ``value``, a tool's result."""
    if isinstance(value, bool):
        return ("Done.", ("Done.",)) if value else ("That did not work.", ("did not work",))
    if isinstance(value, (int, float)):
        return f"The result is {to_json(value)}.", (to_json(value),)
    if not value:
        return _NOTHING
    if isinstance(value, str):
        return f"It says: {value}", (value,)
    if isinstance(value, list):
        return _listed(value)
    assert isinstance(value, Mapping)
    if (reason := _failure(value)) is not None:
        return failed(reason)
    if all(key in _FLAGS and entry in _FINE for key, entry in value.items()):
        return "Done.", ("Done.",)
    entries = list(value.values())
    if len(entries) == 1 and isinstance(entries[0], list):
        return stated(entries[0])
    return sentence_of(value)


def failed(reason: str) -> Answer:
    """The answer to a tool that could not do its work."""
    if not reason:
        return "That did not work.", ("did not work",)
    return ended(f"That did not work: {reason}"), (reason,)


def sentence_of(value: Mapping[str, Any]) -> Answer:
    """All that an object holds, at any depth, each value behind its own key."""
    parts, facts = [], []
    for key, entry in _leaves(value):
        parts.append(f"the {key} {'are' if isinstance(entry, list) else 'is'} {shown(entry)}")
        facts += _facts(entry)
    if not parts:
        return _NOTHING
    text = " and ".join(parts)
    return ended(text[0].upper() + text[1:]), tuple(facts)


def ended(text: str) -> str:
    """``text`` with an end mark."""
    return text if text.endswith((".", "!", "?")) else text + "."


def _failure(value: Mapping[str, Any]) -> str | None:
    """Why a tool failed, if ``value`` says that it did."""
    failed = any(value.get(flag) is False for flag in ("ok", "success"))
    failed = failed or value.get("status") in ("error", "failed", "failure") or bool(value.get("error"))
    if not failed:
        return None
    for key in _REASONS:
        reason = value.get(key)
        if isinstance(reason, Mapping):
            return _failure({"error": True, **reason}) or ""
        if isinstance(reason, str):
            return reason
    return ""


def _leaves(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            yield from _leaves(entry)
        elif isinstance(entry, list) and entry and isinstance(entry[0], Mapping):
            for each in entry:
                yield from _leaves(each)
        else:
            yield key.replace("_", " "), entry


def _listed(value: list[Any]) -> Answer:
    if not isinstance(value[0], Mapping):
        facts = tuple(shown(entry) for entry in value)
        return ended("I found: " + "; ".join(facts)), facts
    rows, named = [], []
    for each in value:
        leaves = list(_leaves(each))
        rows.append(", ".join(f"{key} {shown(entry)}" for key, entry in leaves))
        named += [fact for _, entry in leaves for fact in _facts(entry)]
    return ended("I found: " + "; ".join(rows)), tuple(named)


def shown(entry: object) -> str:
    """``entry`` of an object in words."""
    if entry is None:
        return "unknown"
    if isinstance(entry, list):
        return ", ".join(shown(each) for each in entry) or "none"
    if isinstance(entry, str):
        return entry or "empty"
    return "none" if entry == {} else to_json(entry)


def _facts(entry: object) -> list[str]:
    if isinstance(entry, list):
        return [shown(each) for each in entry]
    return [shown(entry)]
