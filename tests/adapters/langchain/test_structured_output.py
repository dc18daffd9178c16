"""`ChatAgentRT.with_structured_output`: a value of the schema, or a typed error."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any, Literal, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field, ValidationError, field_validator

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.adapters.langchain.chat_model.structured_output import response_format_of
from agentrt.errors import ConfigurationError, InvalidRequestError, StructuredOutputError
from tests.adapters.langchain.chats import QUESTION, collect, get_weather


class Place(BaseModel):
    """A place that somebody asks about."""

    city: str = Field(description="its name", max_length=20)  # nano does not end a text that is not a call


class PlaceDict(TypedDict):
    """A place that somebody asks about."""

    city: Literal["Oslo", "Rome"]


ASKED = [QUESTION]
SCHEMAS: list[Any] = [Place, PlaceDict, Place.model_json_schema()]
schemas = pytest.mark.parametrize("schema", SCHEMAS, ids=["pydantic", "typed dict", "json schema"])
methods = pytest.mark.parametrize("method", ["function_calling", "json_schema"])


def is_a_place(value: Any, schema: Any) -> bool:
    if schema is Place:
        return isinstance(value, Place)
    return isinstance(value, dict) and value.keys() == {"city"} and isinstance(value["city"], str)


LAST: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda structured: structured.invoke(ASKED),
    "ainvoke": lambda structured: asyncio.run(structured.ainvoke(ASKED)),
    "stream": lambda structured: list(structured.stream(ASKED))[-1],
    "astream": lambda structured: asyncio.run(collect(structured.astream(ASKED)))[-1],
}
"""Ways to ask for a value, of which streams yield the parts."""


@schemas
@methods
@pytest.mark.parametrize("strict", [None, True])
def test_a_value_of_the_schema(chat: ChatAgentRT, schema: Any, method: Any, strict: bool | None) -> None:
    structured = chat.with_structured_output(schema, method=method, strict=strict)
    value = structured.invoke(ASKED)
    assert is_a_place(value, schema)
    assert [ask(structured) for ask in LAST.values()] == [value] * 4
    raw = chat.with_structured_output(schema, method=method, strict=strict, include_raw=True).invoke(ASKED)
    assert (raw["parsed"], raw["parsing_error"]) == (value, None)
    assert isinstance(raw["raw"], AIMessage)


def test_any_json(chat: ChatAgentRT) -> None:
    class Knowing(ChatAgentRT):
        """A model that writes an object which suits the prompt."""

        def _request(self, messages: Any, stop: Any, given: Any, **how: Any) -> Any:
            assert given["response_format"] == {"type": "json_object"}
            return super()._request(messages, stop, {**given, "response_format": Place}, **how)

    knowing = Knowing(runtime=chat.runtime, max_tokens=64)
    assert isinstance(knowing.with_structured_output(Place, method="json_mode").invoke(ASKED), Place)
    assert knowing.with_structured_output(None, method="json_mode").invoke(ASKED).keys() == {"city"}


Fail = Callable[[ChatAgentRT], ChatAgentRT]


def cut_off(chat: ChatAgentRT) -> ChatAgentRT:
    return chat.model_copy(update={"max_tokens": 3})


class Silent(ChatAgentRT):
    """A model that answers with text whatever it must."""

    def _request(self, messages: Any, stop: Any, given: Any, **how: Any) -> Any:
        free = {
            name: given[name] for name in given if name not in ("tools", "tool_choice", "response_format")
        }
        return super()._request(messages, stop, free, **how)


def silent(chat: ChatAgentRT) -> ChatAgentRT:
    return Silent(runtime=chat.runtime, max_tokens=64)


@pytest.mark.parametrize(("fail", "reason"), [(cut_off, "length"), (silent, "stop")])
@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
@pytest.mark.parametrize("way", LAST)
def test_without_a_value_there_is_an_error(
    chat: ChatAgentRT, fail: Fail, reason: str, method: Any, way: str
) -> None:
    structured = fail(chat).with_structured_output(Place, method=method)

    with pytest.raises(StructuredOutputError) as caught:
        LAST[way](structured)
    assert caught.value.finish_reason == reason
    assert isinstance(caught.value, OutputParserException)  # what LangChain's retries look for
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), StructuredOutputError)
    if way == "invoke":
        raw = fail(chat).with_structured_output(Place, method=method, include_raw=True).invoke(ASKED)
        assert raw["parsed"] is None
        assert isinstance(raw["parsing_error"], StructuredOutputError)
        assert isinstance(raw["raw"], AIMessage)


def test_json_that_was_cut_off_is_not_completed(chat: ChatAgentRT) -> None:
    class Long(BaseModel):
        """A story."""

        title: str
        pages: list[str] = Field(min_length=3)

    structured = cut_off(chat).with_structured_output(Long.model_json_schema(), method="json_schema")
    with pytest.raises(StructuredOutputError, match="Raise max_tokens"):
        structured.invoke(ASKED)


@methods
def test_errors_of_the_schemas_own_checks_stay(chat: ChatAgentRT, method: Any) -> None:
    class Checked(BaseModel):
        """A place that somebody asks about."""

        city: Literal["Oslo", "Rome"]

        @field_validator("city")
        @classmethod
        def _known(cls, city: str) -> str:
            raise ValueError("not on the map")

    with pytest.raises((ValidationError, OutputParserException), match="not on the map"):
        chat.with_structured_output(Checked, method=method).invoke(ASKED)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (Place, {"method": "yaml"}, "json_mode"),
        (None, {}, "needs a schema"),
        (Place, {"method": "json_mode", "strict": True}, "Leave out strict"),
    ],
)
def test_wrong_use(chat: ChatAgentRT, schema: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        chat.with_structured_output(schema, **options)
    with pytest.raises(InvalidRequestError, match="temprature"):
        chat.with_structured_output(Place, temprature=1).invoke(ASKED)


def test_further_tools(chat: ChatAgentRT) -> None:
    structured = chat.with_structured_output(
        Place, method="json_schema", tools=[get_weather], include_raw=True
    )
    found = structured.invoke(ASKED)
    assert [call["name"] for call in found["raw"].tool_calls] == ["get_weather"]
    assert isinstance(found["parsing_error"], StructuredOutputError)
    forced = chat.with_structured_output(Place, tools=[get_weather])
    assert isinstance(forced.invoke(ASKED), Place)


@pytest.mark.parametrize("strategy", [Place, ToolStrategy(Place), ProviderStrategy(Place, strict=True)])
def test_agents_with_a_response_format(chat: ChatAgentRT, strategy: Any) -> None:
    agent = create_agent(chat, [], response_format=strategy)
    found: Any = agent.invoke({"messages": ASKED})
    assert isinstance(found["structured_response"], Place)


def test_objects_have_no_other_properties() -> None:
    class Inner(BaseModel):
        """A part."""

        size: int

    class Outer(BaseModel):
        """A whole."""

        one: Inner | None
        many: list[Inner]
        properties: dict[str, int]

    wanted = response_format_of(Outer)["json_schema"]
    schema = wanted["schema"]
    assert (wanted["name"], schema["additionalProperties"]) == ("Outer", False)
    assert schema["properties"].keys() == {"one", "many", "properties"}
    assert schema["properties"]["many"]["items"]["additionalProperties"] is False
    assert schema["properties"]["one"]["anyOf"][0]["additionalProperties"] is False
    assert schema["properties"]["properties"]["additionalProperties"] == {"type": "integer"}
    assert schema["required"] == ["one", "many", "properties"]
    both = {
        "type": "object",
        "properties": {"a": {}},
        "allOf": [{"properties": {"b": {}}, "required": ["b"]}],
    }
    for given in (both, {**both, "allOf": [], "$ref": "#/$defs/x"}, {**Outer.model_json_schema(), "if": {}}):
        named = {"type": "json_schema", "json_schema": {"name": "x", "schema": given}}
        assert "additionalProperties" not in response_format_of(named)["json_schema"]["schema"]
    assert response_format_of({"type": "json_object"}) == {"type": "json_object"}


@methods
def test_a_response_format_may_be_bound_as_a_class(chat: ChatAgentRT, method: str) -> None:
    if method == "json_schema":
        answer = chat.bind(response_format=Place).invoke(ASKED)
    else:
        answer = chat.bind_tools([], response_format=Place, strict=True).invoke(ASKED)
    assert isinstance(Place.model_validate_json(answer.text), Place)
