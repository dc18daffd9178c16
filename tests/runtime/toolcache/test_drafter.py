from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentrt.calls import ToolCall, ToolCallFormat, parse_tool_calls
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.toolcache.drafter import ToolCacheDrafter
from agentrt.runtime.toolcache.outputs import ToolOutputs
from agentrt.runtime.toolcache.renderer import ToolTurnRenderer
from agentrt.runtime.toolcache.tool_turn import ToolTurn

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": CITY}} for name in ("weather", "population")
]


@pytest.fixture
def renderer(tokenizer: Tokenizer) -> ToolTurnRenderer:
    return ToolTurnRenderer(tokenizer, ToolCallFormat.HERMES)


@pytest.fixture
def outputs(renderer: ToolTurnRenderer) -> ToolOutputs:
    return ToolOutputs(TOOLS, tokenize=renderer.tokenize_call)


@pytest.fixture
def drafter(outputs: ToolOutputs, renderer: ToolTurnRenderer) -> ToolCacheDrafter:
    return ToolCacheDrafter(outputs, renderer, lambda text: parse_tool_calls(text, "hermes")[1], 4096)


def tokenized(renderer: ToolTurnRenderer, name: str, city: str) -> tuple[int, ...]:
    return renderer.tokenize_call(ToolCall(name, {"city": city}), "").tokens


def drafts(drafter: ToolCacheDrafter, tokens: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Number of tokens written -> draft, for a model that writes ``tokens`` and verifies whole drafts."""
    found: dict[int, tuple[int, ...]] = {}
    draft: tuple[int, ...] = ()
    for place, token in enumerate(tokens, 1):
        drafter.append(token)
        followed, draft = draft[:1] == (token,), draft[1:]
        if followed and draft:
            continue
        draft = drafter.draft().tokens
        if draft:
            found[place] = draft
    return found


def test_the_newest_call_is_drafted_where_a_call_opens(
    drafter: ToolCacheDrafter, outputs: ToolOutputs, renderer: ToolTurnRenderer, tokenizer: Tokenizer
) -> None:
    outputs.put("weather", {"city": "Oslo"}, "rain")
    outputs.put("weather", {"city": "Rome"}, "sun")
    call = tokenized(renderer, "weather", "Rome")
    before = tokenizer.encode("Let me look. ")
    assert drafts(drafter, [*before, *call]) == {len(before) + 1: call[1:]}


def test_the_next_draft_follows_what_the_model_wrote(
    drafter: ToolCacheDrafter, outputs: ToolOutputs, renderer: ToolTurnRenderer
) -> None:
    outputs.put("population", {"city": "Oslo"}, "700k")
    outputs.put("population", {"city": "Rome"}, "3M")
    outputs.put("weather", {"city": "Rome"}, "sun")
    written = tokenized(renderer, "population", "Oslo")
    found = drafts(drafter, written)
    # At the opening the newest call; once the name is known its newest; once the city is known the other one.
    assert [found[place] for place in found] == [
        call[place:]
        for place, call in zip(
            found,
            (tokenized(renderer, "weather", "Rome"), tokenized(renderer, "population", "Rome"), written),
            strict=True,
        )
    ]
    assert min(found) == 1


def test_an_output_that_arrives_during_the_call_is_drafted(
    drafter: ToolCacheDrafter, outputs: ToolOutputs, renderer: ToolTurnRenderer
) -> None:
    call = tokenized(renderer, "weather", "Rome")
    assert drafts(drafter, call[:4]) == {}
    outputs.put("weather", {"city": "Rome"}, "sun")
    drafter.append(call[4])
    assert drafter.draft().tokens == call[5:]


def call_text(name: str, city: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "{city}"}}}}\n</tool_call>'


def test_a_turn_is_answered_only_if_all_its_calls_are(
    drafter: ToolCacheDrafter, outputs: ToolOutputs, renderer: ToolTurnRenderer, tokenizer: Tokenizer
) -> None:
    one, other = call_text("weather", "Rome"), call_text("population", "Rome")
    (end,) = tokenizer.end_token_ids

    def answer(text: str) -> ToolTurn | None:
        return drafter.answer_turn(end, text, 100)

    assert answer(one) is None
    outputs.put("weather", {"city": "Rome"}, "sun")
    turn = answer(f"Let me look.\n{one}")
    assert turn is not None
    assert turn.outputs == ("sun",)
    assert turn.reply == renderer.tokenize_call(ToolCall("weather", {"city": "Rome"}), "sun").reply
    assert answer(f"{one}\n{other}") is None
    outputs.put("population", {"city": "Rome"}, "3M")
    both = answer(f"{one}\n{other}")
    assert both is not None
    assert both.outputs == ("sun", "3M")
    assert [call.name for call in both.calls] == ["weather", "population"]
    assert both.reply == renderer.reply(both.calls, both.outputs)
    assert answer("Nothing to do.") is None
    # A token that the template would not have written, and a reply after which no token would fit.
    assert drafter.answer_turn(end + 1, one, 100) is None
    assert drafter.answer_turn(end, one, 4096 - len(turn.reply.tokens)) is None


def test_a_reply_that_is_too_long_is_not_stored(renderer: ToolTurnRenderer) -> None:
    outputs = ToolOutputs(TOOLS, tokenize=renderer.tokenize_call, max_reply_tokens=40)
    assert outputs.put("weather", {"city": "Rome"}, "sun")
    assert not outputs.put("weather", {"city": "Rome"}, "sun " * 100)
