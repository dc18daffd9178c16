"""Offered tools: what fits is a call, what is unambiguous is repaired and counted, all else is rejected."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.calls import ToolCall, ToolCallFormat, ToolDefinitions


def tools(*names: str, **properties: Any) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]


def check(name: str, arguments: dict[str, Any], offered: ToolDefinitions) -> ToolCall | None:
    return offered.check(ToolCall(name, arguments), ToolCallFormat.JSON_MESSAGE)


@pytest.mark.parametrize(
    ("written", "repaired"),
    [
        *(
            (each, True)
            for each in ("get_wether", "get_weatherr", "get_weahter", "Get_Weather", "get-weather")
        ),
        *((each, False) for each in ("get_wethr", "weather", "", "get_a", "sned_")),
    ],
)
def test_a_name_one_edit_away_from_one_tool_is_repaired(written: str, repaired: bool) -> None:
    offered = ToolDefinitions(tools("get_weather", "get_b", "get_c", "send"))
    assert check(written, {}, offered) == (ToolCall("get_weather", {}) if repaired else None)
    assert offered.repaired == repaired


@pytest.mark.parametrize(
    ("schema", "written", "fitted", "repaired"),
    [
        ({"type": "integer"}, 3, 3, 0),
        ({"type": "integer"}, "3", 3, 1),
        ({"type": "integer"}, 3.0, 3.0, 0),
        ({"type": "number"}, "-1.5e3", -1500.0, 1),
        ({"type": "boolean"}, "true", True, 1),
        ({"type": "string"}, "3", "3", 0),
        ({"type": ["string", "integer"]}, "3", "3", 0),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3, 1),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "3", "3", 0),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2], 1),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "1"}, {"n": 1}, 1),
        ({"enum": ["a", "b"]}, "a", "a", 0),
        ({"$ref": "#/properties/y"}, "7", 7, 1),
        (True, object, object, 0),
    ],
)
def test_values_that_fit(schema: Any, written: Any, fitted: Any, repaired: int) -> None:
    offered = ToolDefinitions(tools("f", x=schema, y={"type": "integer"}))
    found = check("f", {"x": written}, offered)
    assert found == ToolCall("f", {"x": fitted})
    assert found is not None
    assert type(found.arguments["x"]) is type(fitted)
    assert offered.repaired == repaired


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer"}, "3.5"),
        ({"type": "integer"}, "three"),
        ({"type": "integer"}, True),
        ({"type": "integer"}, " 3"),
        ({"type": "string"}, 3),
        ({"type": "boolean"}, "yes"),
        ({"type": "array"}, "[1]"),
        ({"enum": ["a", "b"]}, "c"),
        ({"enum": [1]}, True),
        ({"const": "a"}, "b"),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "maybe"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "3"),  # ambiguous
        ({"$ref": "https://example.com/schema.json"}, 1),
        ({"$ref": "#/properties/x"}, 1),  # refers to itself without end
        (False, 1),
    ],
)
def test_values_that_do_not_fit(schema: Any, written: Any) -> None:
    assert check("f", {"x": written}, ToolDefinitions(tools("f", x=schema))) is None


@pytest.mark.parametrize("odd", [5, {"a": 1}, [[]], [{}], None, True, "x", 1.5])
@pytest.mark.parametrize("keyword", ["type", "enum", "required", "properties", "anyOf", "allOf", "items"])
def test_keywords_of_another_type_restrict_nothing(keyword: str, odd: Any) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "object", keyword: odd}}}
    offered = ToolDefinitions([{"type": "function", "function": {"name": "f", "parameters": schema}}])
    for written in ({"y": [1]}, [1], 1):
        offered.check(ToolCall("f", {"x": written}), ToolCallFormat.JSON_MESSAGE)


def test_missing_and_undeclared_arguments_do_not_fit() -> None:
    offered = ToolDefinitions(tools("f", x={"type": "integer"}, y={}))
    assert check("f", {"y": 1}, offered) is None
    assert check("f", {"x": 1, "z": 1}, offered) is None
    assert check("f", {"x": 1, "y": [None]}, offered) == ToolCall("f", {"x": 1, "y": [None]})


def test_arguments_of_formats_without_types_get_those_of_the_schema() -> None:
    offered = ToolDefinitions(tools("f", x={"type": "integer"}, s={"type": "string"}, l={"type": "array"}))
    call = ToolCall("f", {"x": "3", "s": "4", "l": '["a"]'})
    fitted = offered.check(call, ToolCallFormat.QWEN3_CODER)
    assert fitted == ToolCall("f", {"x": 3, "s": "4", "l": ["a"]})
    assert offered.repaired == 0


def test_a_tool_without_parameters_takes_no_arguments() -> None:
    offered = ToolDefinitions([{"type": "function", "function": {"name": "now"}}])
    assert check("now", {}, offered) == ToolCall("now", {})
    assert check("now", {"type": "object"}, offered) is None


class Counted(dict[str, Any]):
    """A schema that counts how often a value is fitted to it."""

    uses = 0

    def __contains__(self, keyword: object) -> bool:
        self.uses += keyword == "$ref"  # the first keyword that is looked at
        return super().__contains__(keyword)


def fittings(keyword: str, depth: int) -> int:
    """How often values nested ``depth`` deep are fitted to a schema that refers to itself twice."""
    node = Counted(
        {
            keyword: [
                {"properties": {"next": {"$ref": "#/$defs/node"}, "end": {"type": "integer"}}},
                {"properties": {"next": {"$ref": "#/$defs/node"}, "end": {"type": "integer"}}},
            ]
        }
    )
    value: dict[str, Any] = {"end": "7" if keyword == "allOf" else "no number"}
    for _ in range(depth):
        value = {"next": value}
    offered = ToolDefinitions(
        [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "parameters": {"properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}},
                },
            }
        ]
    )
    fitted = check("read", {"tree": value}, offered)
    assert (fitted is None) == (keyword == "anyOf")
    return node.uses


@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_a_value_is_fitted_once_to_a_schema_that_refers_to_itself_twice(keyword: str) -> None:
    # Twice on each level would be 2 ** 15.
    assert fittings(keyword, 15) <= 2 * 16


def test_a_schema_that_is_an_alternative_of_itself_ends() -> None:
    offered = ToolDefinitions(tools("read", path={"anyOf": [{"$ref": "#/properties/path"}] * 2}))
    assert check("read", {"path": "a"}, offered) is None
