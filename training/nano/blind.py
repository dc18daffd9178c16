"""Cases written by hand, mostly in words, tools and values that the training data does not have.

Nothing is trained on them. ``blind_set.json`` lists tools, sets of them, and five kinds of cases: the answer
to a result, the calls of a request, the call that reads what a search found, plain English texts to repeat,
and replies without a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .markup import MARKUP_TOKENS
from .turns import Step, messages_of

_FILE = Path(__file__).with_name("blind_set.json")
_SYSTEM = "You are a helpful assistant."
Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class BlindCase:
    """One request to the model and what is right: these calls, or an answer that has these facts."""

    kind: str
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    calls: tuple[Call, ...]
    facts: tuple[str, ...] = ()
    """What the answer must contain; alternatives are separated by ``|``."""

    @property
    def shown(self) -> str:
        """The request and the last result, for reading."""
        return " / ".join(
            message["content"] for message in self.messages if message["role"] in ("user", "tool")
        )

    def right(self, calls: tuple[Call, ...], text: str) -> bool:
        """Whether a generation's calls and text are as they should be."""
        if self.calls or calls:
            return [(name, dict(arguments)) for name, arguments in calls] == [
                (name, dict(arguments)) for name, arguments in self.calls
            ]
        if any(token in text for token in MARKUP_TOKENS):
            return False
        return all(any(one in text for one in fact.split("|")) for fact in self.facts)


def blind_cases() -> list[BlindCase]:
    """All cases."""
    return list(_cases(json.loads(_FILE.read_text(encoding="utf-8"))))


def _cases(content: Mapping[str, Any]) -> Iterator[BlindCase]:
    tools = {name: _schema(name, *shown) for name, shown in content["tools"].items()}
    sets = {key: [tools[name] for name in names] for key, names in content["sets"].items()}
    for group in content["answers"]:
        for result, facts in group["cases"]:
            history = [*_asked(group["request"]), *_called(group["call"], result)]
            yield BlindCase("answer", sets[group["set"]], history, (), tuple(facts))
    for key, request, calls in content["calls"]:
        kind = "calls" if len(calls) > 1 else "call"
        yield BlindCase(kind, sets[key], _asked(request), tuple(map(tuple, calls)))
    for key, request, call, result, read in content["reads"]:
        yield BlindCase("read on", sets[key], [*_asked(request), *_called(call, result)], (tuple(read),))
    for text in content["texts"]:
        result = json.dumps({"title": "Diary", "text": text})
        history = [*_asked("Read note n17"), *_called(("read_note", {"id": "n17"}), result)]
        yield BlindCase("text", sets["demo"], history, (), (text,))
    for key, request, fact in content["talk"]:
        yield BlindCase("talk", sets[key], _asked(request), (), (fact,))


def _schema(name: str, description: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """A tool in OpenAI's shape; ``?`` after a parameter's name: it is optional; a list is an enumeration."""
    properties = {
        parameter.rstrip("?"): {"type": "string", "enum": kind} if isinstance(kind, list) else {"type": kind}
        for parameter, kind in shown.items()
    }
    required = [parameter for parameter in shown if not parameter.endswith("?")]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _asked(request: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": request}]


def _called(call: Call, result: str) -> list[dict[str, Any]]:
    name, arguments = call
    return messages_of([Step(name, arguments, result)])
