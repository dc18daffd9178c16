"""`with_structured_output`: values of a schema, by a forced call or by an answer held to the schema."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, BaseMessageChunk
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.runnables import Runnable, RunnableGenerator, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass

from agentrt.errors import ConfigurationError

from .errors import ChatStructuredOutputError

Method = Literal["function_calling", "json_mode", "json_schema"]
Check = Callable[[AIMessage], None]
"""Raises :class:`ChatStructuredOutputError` for an answer that has no value of the schema."""


def structured_output(
    model: Any,
    schema: Any,
    *,
    method: Method,
    include_raw: bool,
    strict: bool | None,
    tools: Sequence[Any],
    options: Mapping[str, Any],
) -> Runnable[LanguageModelInput, Any]:
    """Return ``model``, a ``ChatAgentRT``, such that it returns values of ``schema``.

    Raises:
        ConfigurationError: there is no such method, it needs a schema, or it does not take ``strict``.
        ValueError: LangChain cannot convert the schema.
    """
    _check_arguments(schema, method, strict)
    traced = {
        "ls_structured_output_format": {"kwargs": {"method": method, "strict": strict}, "schema": schema}
    }
    is_pydantic = isinstance(schema, type) and is_basemodel_subclass(schema)
    if method == "function_calling":
        name = convert_to_openai_tool(schema)["function"]["name"]
        bound = model.bind_tools(
            [schema, *tools],
            **{"tool_choice": name, "parallel_tool_calls": False, "strict": strict, **traced, **options},
        )
        check = _calls(name)
        parser: BaseOutputParser[Any] = JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
        if is_pydantic:
            parser = PydanticToolsParser(tools=[schema], first_tool_only=True)
    else:
        json_schema = method == "json_schema"
        wanted = response_format_of(schema, strict=strict) if json_schema else {"type": "json_object"}
        settings = {"response_format": wanted, **(traced if schema is not None else {}), **options}
        bound = model.bind_tools(tools, strict=strict, **settings) if tools else model.bind(**settings)
        check = _check_json
        parser = PydanticOutputParser(pydantic_object=schema) if is_pydantic else JsonOutputParser()
    parsed: Runnable[Any, Any] = _checked(check) | parser
    if not include_raw:
        value: Runnable[LanguageModelInput, Any] = bound | parsed
        return value
    with_value = RunnablePassthrough.assign(parsed=itemgetter("raw") | parsed, parsing_error=lambda _: None)
    without = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=bound) | with_value.with_fallbacks([without], exception_key="parsing_error")


def _check_arguments(schema: Any, method: Any, strict: bool | None) -> None:
    if method not in ("function_calling", "json_mode", "json_schema"):
        raise ConfigurationError(
            f"method={method!r} does not exist. Use 'function_calling', 'json_mode' or 'json_schema'."
        )
    if schema is None and method != "json_mode":
        raise ConfigurationError(f"method={method!r} needs a schema. Give one, or use method='json_mode'.")
    if strict is not None and method == "json_mode":
        raise ConfigurationError("method='json_mode' has no schema to be strict about. Leave out strict.")


def _calls(name: str) -> Check:
    """Return the check that an answer calls ``name``."""

    def check(answer: AIMessage) -> None:
        if not any(call["name"] == name for call in answer.tool_calls):
            raise _error(answer, f"does not call {name}")

    return check


def _check_json(answer: AIMessage) -> None:
    # LangChain's parser would complete JSON that was cut off.
    try:
        json.loads(answer.text)
    except ValueError:
        raise _error(answer, "is no JSON") from None


def _error(answer: AIMessage, problem: str) -> ChatStructuredOutputError:
    reason = answer.response_metadata.get("finish_reason", "")
    if reason == "length":
        return ChatStructuredOutputError(
            "the answer was cut off before its value was complete. Raise max_tokens, shorten the prompt, or "
            "ask for less.",
            answer.text,
            reason,
        )
    if answer.tool_calls and problem == "is no JSON":
        problem = f"calls {answer.tool_calls[0]['name']}"
    return ChatStructuredOutputError(
        f"the answer {problem}: {answer.text!r:.200}. Ask again with another prompt, or look at the message "
        "with include_raw=True.",
        answer.text,
        reason,
    )


def _checked(check: Check) -> RunnableGenerator[Any, Any]:
    """Return a step that hands messages on as they come, and checks the whole one at its end."""

    def transform(messages: Iterator[BaseMessage]) -> Iterator[BaseMessage]:
        whole = None
        for message in messages:
            whole = _joined(whole, message)
            yield message
        check(whole)  # type: ignore[arg-type]

    async def atransform(messages: AsyncIterator[BaseMessage]) -> AsyncIterator[BaseMessage]:
        whole = None
        async for message in messages:
            whole = _joined(whole, message)
            yield message
        check(whole)  # type: ignore[arg-type]

    return RunnableGenerator(transform, atransform, name="check")


def _joined(whole: Any, message: BaseMessage) -> Any:
    return whole + message if isinstance(whole, BaseMessageChunk) else message


_COMBINING: Final = frozenset(
    ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "unevaluatedProperties")
)
"""Keywords beside which an object may have properties of other schemas."""


def response_format_of(schema: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """Return the ``response_format`` of a schema.

    ``schema`` is a Pydantic class, a ``TypedDict``, a JSON schema with a title, a function definition, or a
    ``response_format``. An object has no properties but those that its schema names, unless it says
    otherwise: a model that may write any goes on writing some. With ``strict`` all properties are required.

    Raises:
        ValueError: LangChain cannot convert the schema.
    """
    described = schema if isinstance(schema, Mapping) else {}
    if described.get("type") in ("text", "json_object"):
        return dict(described)
    if described.get("type") == "json_schema":
        described = described.get("json_schema") or {}
    if "name" in described and "schema" in described:
        return {"type": "json_schema", "json_schema": {**described, "schema": _closed(described["schema"])}}
    function = convert_to_openai_tool(schema, strict=strict)["function"]
    parameters = function.get("parameters", {"type": "object", "properties": {}})
    return {"type": "json_schema", "json_schema": {"name": function["name"], "schema": _closed(parameters)}}


def _closed(schema: Any) -> Any:
    """Return ``schema`` with objects that have no other properties, as far as no other schema adds some."""
    if not isinstance(schema, dict) or "allOf" in schema:
        return schema
    closed = dict(schema)
    for name in ("properties", "$defs"):
        if isinstance(schema.get(name), dict):
            closed[name] = {key: _closed(part) for key, part in schema[name].items()}
    if "items" in schema:
        closed["items"] = _closed(schema["items"])
    if "properties" not in schema and isinstance(schema.get("anyOf"), list):
        closed["anyOf"] = [_closed(part) for part in schema["anyOf"]]
    if "properties" in schema and _COMBINING.isdisjoint(schema):
        closed.setdefault("additionalProperties", False)
    return closed
