from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentrt.calls import ToolCall, ToolCallFormat
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.toolcache.outputs import ToolOutputs
from agentrt.runtime.toolcache.proposer import ToolCacheProposer
from agentrt.runtime.toolcache.replies import ToolTurn
from agentrt.runtime.toolcache.turns import ToolTurns

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": CITY}} for name in ("weather", "population")
]


@pytest.fixture
def turns(tokenizer: Tokenizer) -> ToolTurns:
    return ToolTurns(tokenizer)


@pytest.fixture
def outputs(turns: ToolTurns) -> ToolOutputs:
    return ToolOutputs(TOOLS, spell=turns.spelling)


@pytest.fixture
def proposer(outputs: ToolOutputs, turns: ToolTurns, tokenizer: Tokenizer) -> ToolCacheProposer:
    (opening,) = tokenizer.encode("<tool_call>")
    return ToolCacheProposer(outputs, turns, ToolCallFormat.HERMES, opening, 4096)


def spelled(turns: ToolTurns, name: str, city: str) -> tuple[int, ...]:
    return turns.spelling(ToolCall(name, {"city": city}), "").call


def drafts(proposer: ToolCacheProposer, tokens: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """What was drafted behind how many of ``tokens``, if the model writes just those."""
    found = {}
    for place, token in enumerate(tokens, 1):
        if draft := proposer.draft(token):
            found[place] = tuple(draft)
    return found


def test_the_newest_call_is_drafted_where_a_call_opens(
    proposer: ToolCacheProposer, outputs: ToolOutputs, turns: ToolTurns, tokenizer: Tokenizer
) -> None:
    outputs.put("weather", {"city": "Oslo"}, "rain")
    outputs.put("weather", {"city": "Rome"}, "sun")
    call = spelled(turns, "weather", "Rome")
    before = tokenizer.encode("Let me look. ")
    assert drafts(proposer, [*before, *call]) == {len(before) + 1: call[1:]}


def test_what_differs_is_tried_next(
    proposer: ToolCacheProposer, outputs: ToolOutputs, turns: ToolTurns
) -> None:
    outputs.put("population", {"city": "Oslo"}, "700k")
    outputs.put("population", {"city": "Rome"}, "3M")
    outputs.put("weather", {"city": "Rome"}, "sun")
    written = spelled(turns, "population", "Oslo")
    found = drafts(proposer, written)
    # At the opening the newest of all, once the name is told its newest, once the city is told the other one.
    assert [found[place] for place in found] == [
        call[place:]
        for place, call in zip(
            found,
            (spelled(turns, "weather", "Rome"), spelled(turns, "population", "Rome"), written),
            strict=True,
        )
    ]
    assert min(found) == 1


def test_an_output_that_comes_during_the_call_is_drafted(
    proposer: ToolCacheProposer, outputs: ToolOutputs, turns: ToolTurns
) -> None:
    call = spelled(turns, "weather", "Rome")
    assert drafts(proposer, call[:4]) == {}
    outputs.put("weather", {"city": "Rome"}, "sun")
    assert proposer.draft(call[4]) == call[5:]


def call_text(name: str, city: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "{city}"}}}}\n</tool_call>'


def test_a_turn_is_answered_if_all_of_it_is(
    proposer: ToolCacheProposer, outputs: ToolOutputs, turns: ToolTurns, tokenizer: Tokenizer
) -> None:
    one, other = call_text("weather", "Rome"), call_text("population", "Rome")
    (end,) = tokenizer.end_token_ids

    def follow(text: str) -> ToolTurn | None:
        return proposer.follow(end, text, 100)

    assert follow(one) is None
    outputs.put("weather", {"city": "Rome"}, "sun")
    turn = follow(f"Let me look.\n{one}")
    assert turn is not None
    assert turn.outputs == ("sun",)
    assert turn.reply == turns.spelling(ToolCall("weather", {"city": "Rome"}), "sun").reply
    assert follow(f"{one}\n{other}") is None
    outputs.put("population", {"city": "Rome"}, "3M")
    both = follow(f"{one}\n{other}")
    assert both is not None
    assert both.outputs == ("sun", "3M")
    assert [call.name for call in both.calls] == ["weather", "population"]
    assert both.reply == turns.reply(both.calls, both.outputs)
    assert follow("Nothing to do.") is None
    assert proposer.follow(end + 1, one, 100) is None  # a token that the template would not have written
    assert proposer.follow(end, one, 4096 - len(turn.reply.tokens)) is None  # nothing could come behind it


def test_a_reply_that_is_too_long_is_not_kept(turns: ToolTurns) -> None:
    outputs = ToolOutputs(TOOLS, spell=turns.spelling, most_tokens=40)
    assert outputs.put("weather", {"city": "Rome"}, "sun")
    assert not outputs.put("weather", {"city": "Rome"}, "sun " * 100)
