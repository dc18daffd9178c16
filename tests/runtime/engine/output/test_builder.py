"""The text of an answer, and the generation and the events that are built from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta, ToolCallFormat
from agentrt.runtime import Finished, Generation, Timing, Usage
from agentrt.runtime.engine.engine_request import AnswerText, RequestOutput, StopReason
from agentrt.runtime.engine.output.builder import GenerationBuilder
from agentrt.runtime.model.detokenizer import ByteDetokenizer

TEXT = 'Let me see.<tool_call>\n{"name": "look", "arguments": {"what": "x"}}\n</tool_call>'


def output(text: str, reason: StopReason = "stop") -> RequestOutput:
    return RequestOutput(
        request_id="gen_7",
        text=text,
        token_ids=(5, 6, 2),
        stop_reason=reason,
        prompt_tokens=11,
        cached_tokens=4,
        queued_s=0.1,
        time_to_first_token_s=0.2,
        total_s=0.3,
    )


def build(pieces: list[str], format: ToolCallFormat | None, reason: StopReason = "stop") -> list[object]:
    builder = GenerationBuilder(format)
    events: list[object] = []
    for piece in pieces:
        events += builder.feed(piece)
    return events + list(builder.finish(output("".join(pieces), reason)))


def test_events_and_generation_of_a_call() -> None:
    *events, last = build([TEXT[:20], TEXT[20:]], ToolCallFormat.HERMES)
    generation = last.generation
    assert generation.id == "gen_7"
    assert (generation.text, generation.finish_reason) == ("Let me see.", "tool_calls")
    assert (generation.usage, generation.timing) == (Usage(11, 3, 4), Timing(0.1, 0.2, 0.3))
    assert generation.token_ids == (5, 6, 2)
    (call,) = generation.tool_calls
    assert (call.name, call.arguments) == ("look", {"what": "x"})
    assert call.id is not None
    assert call.id.startswith("call_")
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Let me see."
    assert [type(e) for e in events if not isinstance(e, (TextDelta, CallArgumentsDelta))] == [
        CallStarted, CallFinished,
    ]  # fmt: skip
    assert events[-1] == CallFinished(0, call), "the same id in the event and in the generation"
    assert [e.id for e in events if isinstance(e, CallStarted)] == [call.id]


def test_call_ids_are_never_the_same() -> None:
    two = TEXT + TEXT.replace('"x"', '"y"')
    twice = [build([two], ToolCallFormat.HERMES)[-1] for _ in range(2)]
    generations = [last.generation for last in twice if isinstance(last, Finished)]
    assert len({call.id for g in generations for call in g.tool_calls}) == 4


def test_without_tools_text_is_text() -> None:
    *events, last = build([TEXT], None)
    assert events == [TextDelta(TEXT)]
    assert (last.generation.text, last.generation.tool_calls) == (TEXT, ())
    assert last.generation.finish_reason == "stop"


@pytest.mark.parametrize("reason", ["length", "cancelled"])
@pytest.mark.parametrize(
    ("text", "calls"),
    [("Let me see.<tool_call>", 0), (TEXT[:-20], 0), (TEXT[:-3], 1), (TEXT + TEXT[11:-20], 1)],
)
def test_a_call_that_was_cut_off_is_dropped(reason: StopReason, text: str, calls: int) -> None:
    last = build([text], ToolCallFormat.HERMES, reason)[-1]
    assert (last.generation.text, last.generation.finish_reason) == ("Let me see.", reason)
    assert len(last.generation.tool_calls) == calls


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_repeated_call_ends_the_answer(reason: StopReason) -> None:
    *events, last = build(list(TEXT * 3 + "And so on."), ToolCallFormat.HERMES, reason)
    assert (last.generation.text, len(last.generation.tool_calls)) == ("Let me see." * 2, 1)
    assert last.generation.finish_reason == ("tool_calls" if reason == "stop" else reason)
    assert len([event for event in events if isinstance(event, CallStarted)]) == 1
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me see." * 2


LOOK = '{"name": "look", "arguments": {"what": "x"}}'
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"properties": {"what": {}}}}}]


def build_message(text: str, reason: StopReason, *, calls_only: bool = False) -> Generation:
    builder = GenerationBuilder(ToolCallFormat.JSON_MESSAGE, TOOLS, calls_only=calls_only)
    builder.feed(text)
    last = builder.finish(output(text, reason))[-1]
    return last.generation


@pytest.mark.parametrize(
    ("text", "calls", "left"),
    [
        (LOOK[:-5], 0, ""),
        (f"```json\n{LOOK[:-5]}", 0, ""),
        (f"{LOOK}\n{LOOK[:-5]}", 1, ""),
        (f"```json\n{LOOK}\n``", 1, ""),
        (f"{LOOK}\n{LOOK[:5]}", 1, ""),
        ('{"name": "Oslo", "cou', 0, '{"name": "Oslo", "cou'),
        ('{"name": "Oslo", "arguments": {"a"', 0, '{"name": "Oslo", "arguments": {"a"'),
    ],
)
def test_a_call_without_markup_that_was_cut_off_is_dropped(text: str, calls: int, left: str) -> None:
    generation = build_message(text, "length")
    assert (len(generation.tool_calls), generation.text) == (calls, left)
    assert build_message(text, "stop").text


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("text", ['{"name', LOOK[:-5]])
def test_an_answer_that_must_call_has_no_text(reason: StopReason, text: str) -> None:
    assert build_message(text, reason, calls_only=True).text == ""


ALPHABET = "abé😀"


def answer(raw: bytes, sizes: list[int], stop: list[str]) -> tuple[AnswerText, list[str]]:
    """Push ``raw`` in tokens of the given sizes, then byte by byte; return the text and its pieces."""
    pieces: list[bytes] = []
    for size in [*sizes, *[1] * len(raw)]:
        pieces.append(raw[:size])
        raw = raw[size:]
    text = AnswerText(ByteDetokenizer(pieces), stop)
    shown = []
    for token in range(len(pieces)):
        shown.append(text.push(token))
        if text.stopped_by is not None:
            break
    shown.append(text.close())
    return text, shown


@given(
    st.text(ALPHABET, max_size=20),
    st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(1, 5), max_size=8),
)
def test_a_stop_text_never_shows(whole: str, stop: list[str], sizes: list[int]) -> None:
    text, shown = answer(whole.encode(), sizes, stop)
    found = [whole.find(each) for each in stop if each in whole]
    if not found:
        assert text.stopped_by is None
        assert "".join(shown) == whole
    else:
        assert text.stopped_by in stop
        # Whichever stop text is complete first ends the answer; nothing of it has been shown.
        assert whole.startswith("".join(shown))
        assert not any(each in "".join(shown) for each in stop)
        rest = whole[len("".join(shown)) :]
        assert rest.startswith(text.stopped_by)
    assert text.text == "".join(shown)


def test_held_back_until_it_cannot_be_a_stop_text() -> None:
    _, shown = answer(b"a</too</tool>b", [1, 5, 2, 5], ["</tool>"])
    assert shown == ["a", "", "</too", "", ""]
    _, shown = answer(b"a</to", [5], ["</tool>"])
    assert "".join(shown) == "a</to", "text that is no stop text is shown at the end"


def test_several_stop_texts_the_first_in_the_text_counts() -> None:
    text, shown = answer(b"xENDyTOP", [8], ["TOP", "END"])
    assert ("".join(shown), text.stopped_by) == ("x", "END")
