"""The incremental parser: independent of how text is split, loses none, returns malformed calls as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.calls import (
    MAX_CALL_CHARACTERS,
    CallArgumentsDelta,
    CallFinished,
    CallStarted,
    JsonCallScanner,
    ParserEvent,
    TextDelta,
    ToolCall,
    ToolCallFormat,
    parse_tool_calls,
    tool_call_parser,
)
from agentrt.calls.registry import BUILT_IN_FORMATS

from .writers import write_message

# As another package may define one: no built-in format has a long opening or separator.
LONG_MARKUP = ToolCallFormat(
    name="long_markup",
    scanner=JsonCallScanner,
    opening_tag="[CALL]",
    message_opening="[CALLS]",
    separator="&&",
    closing="[END]",
)
formats = st.sampled_from([*BUILT_IN_FORMATS, LONG_MARKUP])
texts = st.text(st.characters(codec="utf-8"), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.from_regex(r"[a-z_]{1,8}(\.[a-z]{1,4})?", fullmatch=True)
keywords = st.from_regex(r"[a-z_]{1,6}", fullmatch=True)
calls = st.builds(ToolCall, names, st.dictionaries(keywords, values, max_size=3))
# Some formats cannot say every text: their values end at a tag, and a newline around them is markup.
plain_texts = st.text("abc äé{}[]\",':=.0-", min_size=1, max_size=12)
plain_calls = st.builds(ToolCall, names, st.dictionaries(keywords, plain_texts, max_size=3))
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | plain_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=3),
    max_leaves=6,
)
messages = st.builds(write_message, st.lists(plain_calls, max_size=2), formats)
gemma_calls = st.builds(ToolCall, names, st.dictionaries(keywords, plain_values, max_size=3))
# Pieces that often give text which is almost a call.
WORDS = """<tool_call> </tool_call> <tool_ <|python_tag|> { } {{ }} [ ] ( ) " ' \\ : , ; x=1 1e999 NaN é text
"name" "arguments" f(x=1) [f(x=1) f( [CALLS] [CALL] [CAL && & [END] [EN"""
shards = st.sampled_from(
    [
        *WORDS.split(),
        *("\n", " ", " " * 65, '{"name": "a", "arguments": {', '{"name": "f", "arguments": {"x": 1}}'),
        '[{"name": "f", "parameters": {}}',
    ]
)


def calls_in(format: ToolCallFormat) -> st.SearchStrategy[ToolCall]:
    """Calls with values that the format can write."""
    if format.untyped_arguments:
        return plain_calls
    return gemma_calls if "gemma" in format.name else calls


def merged(events: list[ParserEvent]) -> list[ParserEvent]:
    result: list[ParserEvent] = []
    for event in events:
        last = result[-1] if result else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            result[-1] = TextDelta(last.text + event.text)
        elif (
            isinstance(event, CallArgumentsDelta)
            and isinstance(last, CallArgumentsDelta)
            and event.index == last.index
        ):
            result[-1] = CallArgumentsDelta(event.index, last.text + event.text)
        else:
            result.append(event)
    return result


def events_of(pieces: list[str], format: ToolCallFormat) -> list[ParserEvent]:
    parser = tool_call_parser(format)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return merged(events + parser.close())


def split(text: str, cuts: list[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@example(["<tool_call>" * 2 + "\n<function=_>\n</function>\n</tool_call>"], [], ToolCallFormat.QWEN3_CODER)
@example(["<start_function_call>ca<start_function_call>"], [], ToolCallFormat.FUNCTION_GEMMA)
@example(["[TOOL_CALLS]" + "x" * 300 + "[TOOL_CALLS]{"], [], ToolCallFormat.MISTRAL_ARGS)
@given(
    st.lists(
        shards | texts | st.builds(write_message, st.lists(plain_calls, max_size=2), formats), max_size=8
    ),
    st.lists(st.integers(0, 10**4)),
    formats,
)
def test_events_do_not_depend_on_the_split(parts: list[str], cuts: list[int], format: ToolCallFormat) -> None:
    text = "".join(parts)
    whole = events_of([text], format)
    assert events_of(split(text, cuts), format) == whole
    assert events_of(list(text), format) == whole


@given(st.data(), formats)
def test_arguments_are_streamed_as_json(data: st.DataObject, format: ToolCallFormat) -> None:
    written = data.draw(st.lists(calls_in(format), min_size=1, max_size=3))
    events = events_of(list(write_message(written, format)), format)
    for index, call in enumerate(written):
        started, arguments, finished = events[3 * index : 3 * index + 3]
        assert started == CallStarted(index, call.name)
        assert isinstance(arguments, CallArgumentsDelta)
        assert json.loads(arguments.text) == call.arguments
        assert finished == CallFinished(index, call)


@given(st.lists(st.text(alphabet="abc <>{}[]()=\"'\n", max_size=30), max_size=4), formats)
def test_text_without_a_call_comes_back_unchanged(parts: list[str], format: ToolCallFormat) -> None:
    text = "".join(parts)  # few calls can be written in this alphabet
    plain, found = parse_tool_calls(text, format)
    assert found or plain == text


@given(st.lists(shards, max_size=10), formats)
def test_no_visible_character_is_lost(parts: list[str], format: ToolCallFormat) -> None:
    text = "".join(parts)
    plain, found = parse_tool_calls(text, format)
    if not found:
        assert plain == text
    else:  # outside well-formed calls only markup disappears
        rest = iter(text)
        assert all(character in rest for character in plain)


def test_text_around_hermes_calls() -> None:
    text = 'Let me look.\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n\nDone. \n'
    assert events_of([text], ToolCallFormat.HERMES) == [
        TextDelta("Let me look."),
        CallStarted(0, "f"),
        CallArgumentsDelta(0, "{}"),
        CallFinished(0, ToolCall("f", {})),
        TextDelta("\n\nDone. \n"),
    ]


def test_text_streams_before_the_message_ends() -> None:
    parser = tool_call_parser(ToolCallFormat.HERMES)
    assert parser.feed("Hello, wor") == [TextDelta("Hello, wor")]
    assert parser.feed("ld <b>") == [TextDelta("ld <b>")]
    assert parser.feed(" <tool") == []
    assert parser.feed("box>") == [TextDelta(" <toolbox>")]


def test_arguments_stream_before_the_call_ends() -> None:
    parser = tool_call_parser(ToolCallFormat.HERMES)
    assert parser.feed('<tool_call>{"name": "f", "arguments": {"q": "la') == [
        CallStarted(0, "f"),
        CallArgumentsDelta(0, '{"q": "la'),
    ]


F = ToolCall("f", {})


@pytest.mark.parametrize(
    ("format", "text", "plain", "calls"),
    [
        ("hermes", '<tool_call>{"name":"f","arguments":{}}\n', "", [F]),  # without a closing tag
        (
            "hermes",
            '<tool_call>{"arguments": "{\\"x\\": 1}", "id": 7, "name": "f"}</tool_call>',
            "",
            [ToolCall("f", {"x": 1})],
        ),
        (
            "hermes",
            '<tool_call>\n{{"name": "f", "arguments": {"x": {"y": 1}}}}\n</tool_call>',
            "",
            [ToolCall("f", {"x": {"y": 1}})],
        ),
        (
            "hermes",
            '<tool_call>{oops <tool_call>{"name": "f", "arguments": {}}</tool_call>',
            "<tool_call>{oops",
            [F],
        ),
        (
            "llama3_json",
            'Sure. <|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}',
            "Sure.",
            [F, ToolCall("g", {})],
        ),
        (
            "pythonic",
            r"""[f(a='it\'s \u00e9', b=[1, -2.5, True, null], c={"k": (1,)}), g.h()]""",
            "",
            [
                ToolCall("f", {"a": "it's é", "b": [1, -2.5, True, None], "c": {"k": [1]}}),
                ToolCall("g.h", {}),
            ],
        ),
    ],
)
def test_calls_are_found_in_every_spelling(format: str, text: str, plain: str, calls: list[ToolCall]) -> None:
    assert parse_tool_calls(text, format) == (plain, tuple(calls))


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (ToolCallFormat.HERMES, '<tool_call>{"name": "f"}</tool_call>'),
        (ToolCallFormat.HERMES, '<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>'),
        (ToolCallFormat.HERMES, '<tool_call>{"name": "f", "arguments": {"x": 1e999}}</tool_call>'),
        (ToolCallFormat.HERMES, '<tool_call>{"name": "f", "arguments": {"x": 1}'),
        (ToolCallFormat.HERMES, '<tool_call>{"name": "", "arguments": {}}</tool_call>'),
        (ToolCallFormat.HERMES, '<tool_call>{{"name": "f", "arguments": {}}</tool_call>'),
        (ToolCallFormat.HERMES, '<tool_call>{{{"name": "f", "arguments": {}}}}</tool_call>'),
        (ToolCallFormat.HERMES, "<tool_call>{{}}</tool_call>"),
        (ToolCallFormat.HERMES, '<tool_call>{"name": "f", "name": "g", "arguments": {}}</tool_call>'),
        (ToolCallFormat.HERMES, '<tool_call>{"name": "f", "arguments": {}, "parameters": {}}</tool_call>'),
        (ToolCallFormat.HERMES, '<tool_call>{"name": "f", "arguments": ' + '{"a":' * 65),
        (ToolCallFormat.LLAMA3_JSON, '{"answer": 42}'),
        (ToolCallFormat.PYTHONIC, "[f(1)]"),
        (ToolCallFormat.PYTHONIC, "[f(x=g())]"),
        (ToolCallFormat.PYTHONIC, "[f(x=1, x=2)]"),
        (ToolCallFormat.PYTHONIC, "[1, 2, 3]"),
        (ToolCallFormat.XLAM, '[{"name": "f"}]'),
        (ToolCallFormat.XLAM, "[]"),
    ],
)
def test_malformed_calls_come_back_as_text(format: ToolCallFormat, text: str) -> None:
    assert parse_tool_calls(text, format) == (text, ())


def test_an_oversized_call_is_text() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"x": "' + "y" * MAX_CALL_CHARACTERS + '"}}</tool_call>'
    plain, found = parse_tool_calls(text, ToolCallFormat.HERMES)
    assert (len(plain), found) == (len(text), ())


@pytest.mark.check
@pytest.mark.parametrize("shard", ["<tool_call>", "<tool_call>{", " ", '<tool_call>{"name": "', "["])
def test_garbage_is_parsed_in_time(shard: str) -> None:
    text = shard * (MAX_CALL_CHARACTERS // 4 // len(shard))
    for format in BUILT_IN_FORMATS:
        plain, found = parse_tool_calls(text, format)
        assert (plain, found) == (text, ())
