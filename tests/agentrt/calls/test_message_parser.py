"""Calls of offered tools in any dialect: recorded answers are read, and JSON that is no call stays text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.calls import (
    CallFinished,
    CallStarted,
    MessageParser,
    ParserEvent,
    TextDelta,
    ToolCall,
    ToolCallFormat,
    ToolDefinitions,
    find_tool_call_format,
)
from agentrt.calls.json_formats import JSON_MESSAGE
from tests.agentrt.calls.recorded_answers import (
    RECORDED_ANSWERS,
    TOOLS,
    RecordedAnswer,
    answers_without_calls,
)
from tests.agentrt.calls.test_parser import merged, split

HERMES = ToolCallFormat.HERMES
OSLO = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
NO_CALLS = tuple(answers_without_calls())


def parse(pieces: list[str], format: str = "hermes", *, held: bool = False) -> list[ParserEvent]:
    own = find_tool_call_format(format)
    parser = MessageParser(own, ToolDefinitions(TOOLS, trusted=own), held_to_grammar=[own] if held else [])
    events = [event for piece in pieces for event in parser.feed(piece)]
    return merged(events + parser.close())


def calls_of(events: list[ParserEvent]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, CallFinished)]


def text_of(events: list[ParserEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("answer", RECORDED_ANSWERS, ids=lambda answer: answer.dialect)
@pytest.mark.parametrize("held", [False, True])
def test_a_recorded_answer_is_read(answer: RecordedAnswer, held: bool) -> None:
    held = held and find_tool_call_format(answer.format).shape is not None
    events = parse([answer.text], answer.format, held=held)
    assert calls_of(events) == list(answer.calls)
    assert text_of(events).strip() == answer.plain
    assert parse(list(answer.text), answer.format, held=held) == events


def test_the_recorded_answers_cover_every_format() -> None:
    assert len({answer.dialect for answer in RECORDED_ANSWERS}) >= 12


@pytest.mark.parametrize("format", ["hermes", "json_message", "mistral", "qwen3_coder"])
def test_json_that_is_no_call_stays_text(format: str) -> None:
    assert len(NO_CALLS) == 1000
    for answer in NO_CALLS:
        events = parse([answer], format)
        assert (calls_of(events), text_of(events)) == ([], answer)


pieces = st.sampled_from(
    [*(answer.text for answer in RECORDED_ANSWERS), *NO_CALLS[:200:7], "\n", " ", "`", "x"]
)


@given(st.lists(pieces, max_size=4), st.lists(st.integers(0, 10**4), max_size=12))
def test_events_do_not_depend_on_the_split(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    assert parse(split(text, cuts)) == parse([text])


def test_text_that_is_certainly_no_call_is_not_held_back() -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS))
    assert parser.feed("It ") == [TextDelta("It")]
    for data in ('{"city"', '["', "[1", "```python\n", "{}", '{"name": "delete_all", "arguments": {}} '):
        parser = MessageParser(HERMES, ToolDefinitions(TOOLS))
        assert text_of(parser.feed(data) + parser.feed("x")) != "", data


def test_calls_that_a_grammar_holds_are_reported_before_they_end() -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS, trusted=HERMES), held_to_grammar=[HERMES])
    events = parser.feed('<tool_call>\n{"name": "get_weather", "arguments": {"city"')
    assert CallStarted(0, "get_weather") in events


@pytest.mark.parametrize(
    "message",
    [
        OSLO,
        f"[{OSLO}, {OSLO}]",
        f"{OSLO}\n{OSLO}",
        f"```json\n{OSLO}\n```",
        f"```\n[{OSLO}]\n```\n",
        f"{{{OSLO}}}",
        OSLO.replace("arguments", "parameters").replace(" ", "\n  "),
    ],
)
def test_messages_of_calls_that_a_grammar_holds_are_reported_while_they_are_written(message: str) -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS), held_to_grammar=[JSON_MESSAGE])
    written, events = message.index("city"), list[ParserEvent]()
    for character in message[:written]:
        events += parser.feed(character)
    assert [type(event) for event in events[:1]] == [CallStarted]
    for character in message[written:]:
        events += parser.feed(character)
    assert merged(events + parser.close()) == parse([message])


@pytest.mark.parametrize(
    "message",
    [
        '{"name": "delete_all", "arguments": {"city"',  # no tool of the request
        '{"arguments": {"city": "Oslo"}, "name": "get_weather"',
        '{"id": 1, "name": "get_weather", "arguments": {"city"',
        '\n{"name": "get_weather", "arguments": {"city"',
        '```python\n{"name": "get_weather", "arguments": {"city"',
    ],
)
def test_messages_that_no_grammar_holds_are_not_reported_before_they_end(message: str) -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS), held_to_grammar=[JSON_MESSAGE])
    assert not any(isinstance(event, CallStarted) for event in parser.feed(message))


def test_a_call_that_is_cut_off_is_none() -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS), held_to_grammar=[JSON_MESSAGE])
    assert CallStarted(0, "get_weather") in parser.feed(OSLO[:-5])
    assert parser.close(cut=True) == []


def test_a_wrong_call_in_the_models_own_format_is_the_agents_to_answer() -> None:
    wrong = ToolCall("delete_all", {"x": 1})
    events = parse(['<tool_call>{"name": "delete_all", "arguments": {"x": 1}}</tool_call>'])
    assert calls_of(events) == [wrong]
    assert calls_of(parse(['<tools>{"name": "delete_all", "arguments": {"x": 1}}</tools>'])) == []


def test_a_long_message_of_calls_is_not_held_without_end() -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS))
    events = [event for _ in range(300) for event in parser.feed(OSLO[:-1] + " " * 4096 + "}\n")]
    assert events
