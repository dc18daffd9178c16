"""Calls of offered tools in any dialect: recorded answers are read, and JSON that is no call stays text."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.calls import (
    CallArgumentsDelta,
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
from agentrt.calls.key import MAX_KEY_CHARACTERS
from tests.agentrt.calls.recorded_answers import (
    RECORDED_ANSWERS,
    TOOLS,
    RecordedAnswer,
    answers_without_calls,
)
from tests.agentrt.calls.test_parser import merged, split

HERMES = ToolCallFormat.HERMES
OSLO = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
TWO_DAYS = OSLO.replace("}}", ', "days": 2}}')
REORDERED = TWO_DAYS.replace('"city": "Oslo", "days": 2', '"days":2, "city":"Oslo"')
ROME = OSLO.replace("Oslo", "Rome")
NO_CALLS = tuple(answers_without_calls())


def parse(
    pieces: list[str],
    format: str = "hermes",
    *,
    held: bool | Collection[ToolCallFormat] = False,
    parallel: bool = True,
) -> list[ParserEvent]:
    own = find_tool_call_format(format)
    grammar = held if isinstance(held, Collection) else [own] * held
    tools = ToolDefinitions(TOOLS, trusted=own)
    parser = MessageParser(own, tools, held_to_grammar=grammar, parallel=parallel)
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


_NAMES = ("get_weather", "search_mail", "getweather", "delete_all", "Oslo", "", "get_w\\u0065ather")
_texts = st.sampled_from(["Oslo", 'a {b} "c" ] }}', "é\n\u2028", "```", "<tool_call>"]) | st.text(max_size=8)
_values = st.recursive(
    _texts | st.integers(-9, 9) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=4,
)
_arguments = st.fixed_dictionaries({"city": _texts}, optional={"days": st.integers(-9, 9)})
_styles = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}])


@st.composite
def near_calls(draw: st.DrawFn) -> str:
    """A text that is a call or looks like one: other names and keys, in other orders, or broken."""
    values = draw(st.dictionaries(st.sampled_from(["city", "days", "place"]), _values, max_size=2))
    values = draw(st.one_of(_arguments, st.just(values)))
    written = json.dumps(values, ensure_ascii=draw(st.booleans()), **draw(_styles))
    key = draw(st.sampled_from(["arguments", "parameters", "args"]))
    members = [f'"name": "{draw(st.sampled_from(_NAMES))}"', f'"{key}": {written}']
    members += draw(st.sampled_from([[], ['"id": 1'], ['"x": {"a": 1}']]))
    text = "{" + ", ".join(draw(st.permutations(members))) + "}"
    at = draw(st.integers(0, len(text)))
    return draw(st.sampled_from([text, f"{{{text}}}", text[:at], text[:at] + "}" + text[at:]]))


pieces = st.sampled_from(
    [*(answer.text for answer in RECORDED_ANSWERS), *NO_CALLS[:200:7], "\n", " ", "`", "x"]
)
marks = st.sampled_from(
    ["\n", "[", "]", ", ", "; ", "```json\n", "\n```", "<tool_call>", "</tool_call>", "x"]
)
messages = st.lists(pieces, max_size=4) | st.lists(near_calls() | marks, max_size=6)


@given(
    messages,
    st.lists(st.integers(0, 10**4), max_size=12),
    st.sampled_from(["hermes", "json_message", "pythonic"]),
    st.booleans(),
)
def test_events_do_not_depend_on_the_split(
    parts: list[str], cuts: list[int], format: str, parallel: bool
) -> None:
    text = "".join(parts)
    whole = parse([text], format, parallel=parallel)
    assert parse(split(text, cuts), format, parallel=parallel) == whole
    assert parse(list(text), format, parallel=parallel) == whole
    assert calls_of(whole) or text_of(whole) == text


@st.composite
def messages_of_calls(draw: st.DrawFn) -> str:
    """A message as the grammar allows it: calls in any style, with name and arguments in this order."""
    calls = []
    for values in draw(st.lists(_arguments, min_size=1, max_size=3)):
        shuffled = dict(draw(st.permutations(list(values.items()))))
        call = {"name": "get_weather", draw(st.sampled_from(["arguments", "parameters"])): shuffled}
        text = json.dumps(call, ensure_ascii=draw(st.booleans()), **draw(_styles))
        calls.append(draw(st.sampled_from([text, f"{{{text}}}"])))
    body = draw(st.sampled_from(["\n".join(calls), f"[{', '.join(calls)}]"]))
    return draw(st.sampled_from([body, f"```json\n{body}\n```", f"```\n{body}\n```\n"]))


@given(messages_of_calls(), st.lists(st.integers(0, 10**4), max_size=12), st.booleans())
def test_what_is_streamed_is_what_the_whole_message_is(message: str, cuts: list[int], parallel: bool) -> None:
    final = calls_of(parse([message], parallel=parallel))
    assert final
    for pieces in ([message], split(message, cuts), list(message)):
        events = parse(pieces, held=[JSON_MESSAGE], parallel=parallel)
        assert (text_of(events), calls_of(events)) == ("", final)
        written = [json.loads(event.text) for event in events if isinstance(event, CallArgumentsDelta)]
        assert written == [call.arguments for call in final]
        assert [event.index for event in events if isinstance(event, CallStarted)] == [*range(len(final))]


@given(st.lists(st.integers(0, 10**4), max_size=12), st.integers(0, 200), messages_of_calls())
def test_a_message_that_is_cut_off_has_the_calls_that_are_complete(
    cuts: list[int], length: int, message: str
) -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS), held_to_grammar=[JSON_MESSAGE])
    events = [event for piece in split(message[:length], cuts) for event in parser.feed(piece)]
    began = any(isinstance(event, CallStarted) for event in events)
    events += parser.close(cut=True)
    made, final = calls_of(events), calls_of(parse([message]))
    assert made == final[: len(made)]
    assert text_of(events) == "" or not began


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"city"', ': "Oslo"}'),
        ("[1", ", 2]"),
        ("```python\n", "x = 1"),
        ("{}", ""),
        ('{"name": "delete_all"', ', "arguments": {}}'),
        (f'{OSLO}\n{{"name": "Oslo"', ', "arguments": {"city": "x"}}'),
        (f"{OSLO} i", "s a call"),
        ("[print(", "city='Oslo')]"),
    ],
)
def test_text_that_only_looked_like_a_call_is_given_back_where_that_shows(text: str, rest: str) -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS))
    events = [event for character in text[:-1] for event in parser.feed(character)]
    assert events == []
    assert text_of(parser.feed(text[-1]) + parser.feed("x")).startswith(text)
    assert text_of(parse([text + rest])) == text + rest


def test_text_that_is_no_call_streams() -> None:
    assert MessageParser(HERMES, ToolDefinitions(TOOLS)).feed("It ") == [TextDelta("It")]


def test_calls_that_a_grammar_holds_are_reported_before_they_end() -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS, trusted=HERMES), held_to_grammar=[HERMES])
    events = parser.feed('<tool_call>\n{"name": "get_weather", "arguments": {"city"')
    assert CallStarted(0, "get_weather") in events


@pytest.mark.parametrize(
    "message",
    [
        OSLO,
        f"[{OSLO}, {ROME}]",
        f"{OSLO}\n{ROME}",
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
        '{"name": "Get_weather", "arguments": {"city"',  # the name is repaired once the call is known
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


@pytest.mark.parametrize("held", [(), (HERMES, JSON_MESSAGE)])
@pytest.mark.parametrize("style", ["{}\n{}\n{}", "[{}, {}, {}]", "<tool_call>{}</tool_call>\n" * 3])
@pytest.mark.parametrize(
    ("first", "again"),
    [(OSLO, OSLO), (OSLO, OSLO.replace("Oslo", r"O\u0073lo")), (TWO_DAYS, REORDERED)],
)
def test_a_repeated_call_ends_the_message(held: Any, style: str, first: str, again: str) -> None:
    message = style.format(first, again, ROME)
    events, parser = [], MessageParser(HERMES, ToolDefinitions(TOOLS), held_to_grammar=held)
    for character in message:
        events += parser.feed(character)
        assert events or not parser.ended
    ended = parser.ended
    events = merged(events + parser.close())
    assert calls_of(events) == [ToolCall("get_weather", json.loads(again)["arguments"])]
    assert [type(event) for event in events] == [CallStarted, CallArgumentsDelta, CallFinished]
    assert parse([message], held=held) == events
    assert ended or not held  # a message that may still be text is known at its end


@pytest.mark.parametrize("second", [ROME, OSLO.replace("}}", ', "days": 1}}'), OSLO.replace("Oslo", "oslo")])
def test_another_call_of_a_tool_comes_once_it_is_known_to_differ(second: str) -> None:
    message = f"{OSLO}\n{second}"
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS), held_to_grammar=[JSON_MESSAGE])
    begun = [event for character in message[:-1] for event in parser.feed(character)]
    assert [event.index for event in begun if isinstance(event, CallStarted)] == [0]
    assert merged(begun + parser.feed("}")) == parse([message])
    assert len(calls_of(parse([message]))) == 2


def test_a_call_of_another_tool_streams_behind_the_first() -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS), held_to_grammar=[JSON_MESSAGE])
    parser.feed(f"{OSLO}\n")
    assert CallStarted(1, "search_mail") in parser.feed('{"name": "search_mail", "arguments": {"query": "')


def test_a_malformed_call_of_a_tool_that_was_called_is_text() -> None:
    broken = '{"name": "get_weather", "arguments": {"city": "Oslo"]'
    events = parse(list(f"<tool_call>{OSLO}</tool_call>\n<tool_call>{broken} </tool_call>"), held=True)
    assert text_of(events) == f"\n<tool_call>{broken} </tool_call>"
    assert calls_of(events) == [ToolCall("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("tag", [("<tool_call>", "</tool_call>"), ("<tools>", "</tools>"), ("", "")])
def test_a_second_call_ends_a_message_that_may_have_one(tag: tuple[str, str]) -> None:
    message = "\n".join(f"{tag[0]}{call}{tag[1]}" for call in (OSLO, ROME, OSLO))
    events = parse(list(message), parallel=False)
    assert calls_of(events) == [ToolCall("get_weather", {"city": "Oslo"})]
    assert parse([message], parallel=False) == events


def test_a_call_that_is_too_large_for_a_key_may_be_repeated() -> None:
    call = OSLO.replace("Oslo", "x" * MAX_KEY_CHARACTERS)
    assert len(calls_of(parse([f"{call}\n{call}"]))) == 2


def test_a_wrong_call_in_the_models_own_format_is_the_agents_to_answer() -> None:
    wrong = ToolCall("delete_all", {"x": 1})
    events = parse(['<tool_call>{"name": "delete_all", "arguments": {"x": 1}}</tool_call>'])
    assert calls_of(events) == [wrong]
    assert calls_of(parse(['<tools>{"name": "delete_all", "arguments": {"x": 1}}</tools>'])) == []


def test_a_long_message_of_calls_is_not_held_without_end() -> None:
    parser = MessageParser(HERMES, ToolDefinitions(TOOLS))
    events = [event for _ in range(300) for event in parser.feed(OSLO[:-1] + " " * 4096 + "}\n")]
    assert events
