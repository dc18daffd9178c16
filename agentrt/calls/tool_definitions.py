"""The tools that a request offers: calls are checked by their JSON schemas, and repaired if unambiguous."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from .arguments import load_json
from .events import ToolCall
from .format import ToolCallFormat
from .json_formats import JSON_MESSAGE

_MAX_DEPTH: Final = 64
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")


_NO_ARGUMENTS: Final = frozenset({"type", "properties", "title", "description", "$schema"})
"""The keywords of a schema that, without any property, declares no arguments."""


def arguments_schema(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the schema of all arguments of a tool from the ``parameters`` of its function definition.

    An undeclared argument is a mistake even where ``parameters`` do not forbid it, and a tool without
    ``parameters`` takes no arguments. Arguments that ``parameters`` declare in another way than by
    ``properties``, such as ``additionalProperties`` or ``anyOf``, remain free.
    """
    schema: dict[str, Any] = {"type": "object", **(parameters or {})}
    if schema.get("properties") or _NO_ARGUMENTS.issuperset(schema):
        schema.setdefault("additionalProperties", False)
    return schema


class UnfitArgumentsError(ValueError):
    """The arguments do not fit the schema."""


class ArgumentTypes:
    """The declared types of one tool's arguments.

    Read are ``type``, ``properties``, ``required``, ``additionalProperties``, ``items``, ``enum``, ``const``,
    ``anyOf``, ``oneOf``, ``allOf`` and local ``$ref``. Other keywords restrict values further; they are left
    to the tool's own validation, and so are these where their values are of a type that JSON Schema does not
    allow.
    """

    def __init__(self, parameters: Mapping[str, Any] | None) -> None:
        """``parameters`` are those of a function definition; None if it has none."""
        self._schema = arguments_schema(parameters)

    def fit(self, arguments: Mapping[str, Any], *, untyped: bool = False) -> tuple[dict[str, Any], int]:
        """Return the arguments with the declared types, and the number of values that were repaired.

        A text that is written as the number or boolean that the schema declares becomes one. ``untyped``
        reads every text whose declared type is not a string as JSON, and does not count it as a repair.

        Raises:
            UnfitArgumentsError: a value has another type and cannot be repaired, a required argument is
                missing, or one is not declared.
        """
        fitting = _Fitting(self._schema, untyped)
        value = fitting.fit(dict(arguments), self._schema, 0)
        return value, 0 if untyped else fitting.repairs


class _Outcome(NamedTuple):
    """The result of fitting a value to the schema of a reference."""

    value: Any
    """The value: while it is kept, no other object has its identity."""
    fitted: Any = None
    repairs: int = 0
    reason: str | None = None
    """Why it does not fit; None if it does."""


class _Fitting:
    """One walk over arguments and their schema."""

    def __init__(self, root: Mapping[str, Any], untyped: bool) -> None:
        self._root = root
        self._untyped = untyped
        self.repairs = 0
        self._referred: dict[tuple[str, int, int], _Outcome] = {}

    def fit(self, value: Any, schema: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH or schema is False:
            raise UnfitArgumentsError("nested too deeply" if schema is not False else "not allowed")
        if not isinstance(schema, Mapping):
            return value
        if "$ref" in schema:
            return self._fit_referred(value, schema["$ref"], depth + 1)
        for each in _list(schema, "allOf"):
            value = self.fit(value, each, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                value = self._fit_one(value, _list(schema, keyword), depth + 1)
        types = [schema["type"]] if isinstance(schema.get("type"), str) else _list(schema, "type")
        if types:
            value = self._typed(value, types)
        if isinstance(schema.get("enum"), (list, tuple)) and not any(
            _equal(value, each) for each in schema["enum"]
        ):
            raise UnfitArgumentsError("not one of the values of the enum")
        if "const" in schema and not _equal(value, schema["const"]):
            raise UnfitArgumentsError("not the constant")
        if isinstance(value, dict):
            return self._mapping(value, schema, depth)
        if isinstance(value, list) and "items" in schema:
            items = [self.fit(item, schema["items"], depth + 1) for item in value]
            return items if _differ(items, value) else value
        return value

    def _fit_referred(self, value: Any, reference: Any, depth: int) -> Any:
        """Fit what ``reference`` refers to, once for each value.

        There may be exponentially many ways to the same reference, where alternatives refer to themselves. A
        value that is not repaired stays the same object, by which it is known.
        """
        target = self._resolve(reference)
        key = (reference, id(value), depth)
        known = self._referred.get(key)
        if known is None:
            begun = self.repairs
            try:
                known = _Outcome(value, self.fit(value, target, depth), self.repairs - begun)
            except UnfitArgumentsError as error:
                known = _Outcome(value, reason=str(error))
            self.repairs = begun
            self._referred[key] = known
        if known.reason is not None:
            raise UnfitArgumentsError(known.reason)
        self.repairs += known.repairs
        return known.fitted

    def _fit_one(self, value: Any, schemas: Sequence[Any], depth: int) -> Any:
        """Fit the first schema that needs no repair, else the only one that fits with repairs."""
        repaired = []
        begun = self.repairs
        for schema in schemas:
            self.repairs = begun
            try:
                fitted = self.fit(value, schema, depth)
            except UnfitArgumentsError:
                continue
            if self.repairs == begun:
                return fitted
            repaired.append((fitted, self.repairs))
        if len(repaired) != 1:
            raise UnfitArgumentsError("fits none of the alternatives, or several after repairs")
        ((fitted, self.repairs),) = repaired
        return fitted

    def _typed(self, value: Any, types: Sequence[Any]) -> Any:
        if any(_has_type(value, each) for each in types):
            return value
        if isinstance(value, str):
            try:
                loaded = self._load(value)
            except ValueError:
                raise UnfitArgumentsError("a text of another type") from None
            if any(_has_type(loaded, each) for each in types):
                self.repairs += 1
                return loaded
        raise UnfitArgumentsError(f"not of type {' or '.join(map(str, types))}")

    def _load(self, text: str) -> Any:
        if self._untyped:
            return load_json({"True": "true", "False": "false", "None": "null"}.get(text, text))
        if _NUMBER.fullmatch(text) or text in ("true", "false"):
            return load_json(text)
        raise ValueError(text)

    def _mapping(self, value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        declared = properties if isinstance(properties, Mapping) else {}
        others = schema.get("additionalProperties", True)
        required = [name for name in _list(schema, "required") if isinstance(name, str)]
        missing = [name for name in required if name not in value]
        if missing:
            raise UnfitArgumentsError(f"{missing[0]} is missing")
        items = {name: self.fit(item, declared.get(name, others), depth + 1) for name, item in value.items()}
        return items if _differ(items.values(), value.values()) else value

    def _resolve(self, reference: Any) -> Any:
        target: Any = self._root
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnfitArgumentsError("a schema outside the tool's own")
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                raise UnfitArgumentsError("a schema that is not there")
            target = target[name]
        return target


def _differ(fitted: Iterable[Any], values: Iterable[Any]) -> bool:
    """Whether one of the fitted values is another object than the value before."""
    return any(new is not old for new, old in zip(fitted, values, strict=True))


def _list(schema: Mapping[str, Any], keyword: str) -> Sequence[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, (list, tuple)) else ()


def _has_type(value: Any, name: object) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
    return True  # a type of another dialect, such as BFCL's "dict", is left to the tool


def _equal(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal: unlike in Python, 1 is not true."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


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
        unusable = call if self.trusts(format) else None
        name = self._offered_name(call.name)
        if name is None:
            return unusable
        try:
            arguments, repairs = self._types[name].fit(call.arguments, untyped=format.untyped_arguments)
        except UnfitArgumentsError:
            return unusable
        self.repaired += bool(repairs) or name != call.name
        return ToolCall(name, arguments, call.id)

    def trusts(self, format: ToolCallFormat) -> bool:
        """Whether a text in ``format`` is a call even if it does not fit."""
        return format is self._trusted

    def offers(self, name: str) -> bool:
        """Whether a call with this name is one of an offered tool, perhaps after a repair."""
        return self._offered_name(name) is not None

    def __contains__(self, name: object) -> bool:
        """Whether an offered tool has exactly this name."""
        return name in self._types

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
