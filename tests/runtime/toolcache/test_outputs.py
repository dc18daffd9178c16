from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.calls import ToolCall
from agentrt.errors import InvalidRequestError
from agentrt.runtime.toolcache.outputs import OutputLimits, ToolOutputs
from agentrt.runtime.toolcache.tool_turn import TokenizedCall, ToolReply


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("find", query={"type": "string"}, limit={"type": "integer", "default": 5}), tool("now")]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_defaults_that_the_schema_states_make_no_difference() -> None:
    outputs = ToolOutputs(TOOLS)
    outputs.put("find", {"query": "a"}, "A")
    assert outputs.get("find", {"limit": 5, "query": "a"}) is not None
    assert outputs.get("find", {"limit": 6, "query": "a"}) is None


def test_an_entry_that_is_not_reusable_answers_one_call() -> None:
    outputs = ToolOutputs(TOOLS)
    call, other = ToolCall("find", {"query": "a"}), ToolCall("now", {})
    for reusable in (True, False):
        assert outputs.put("find", {"query": "a"}, "A", reusable=reusable)
        assert outputs.put("now", {}, "12:00")
        assert [entry.output for entry in outputs.find([call, other, other])] == ["A", "12:00", "12:00"]
        assert bool(outputs.find([call, call])) is reusable
        assert outputs.find([call, ToolCall("find", {"query": "b"})]) == []
        held = outputs._bytes
        outputs.use(outputs.find([call, other]))
        assert (outputs.get("find", {"query": "a"}) is not None) is reusable
        assert outputs.get("now", {}) is not None
        assert (outputs._bytes == held) is reusable
    assert outputs.find([]) == []


def test_an_output_that_came_meanwhile_is_not_used_up() -> None:
    outputs = ToolOutputs(TOOLS)
    call = ToolCall("now", {})
    assert outputs.put("now", {}, "12:00", reusable=False)
    found = outputs.find([call])
    assert outputs.put("now", {}, "12:01", reusable=False)
    outputs.use(found)
    assert [entry.output for entry in outputs.find([call])] == ["12:01"]


def test_entries_expire() -> None:
    clock = Clock()
    outputs = ToolOutputs(TOOLS, OutputLimits(keep_alive_s=10, max_keep_alive_s=20), clock)
    outputs.put("now", {}, "x")
    outputs.put("find", {"query": "a"}, "A", keep_alive_s=1e9)
    clock.now = 10
    assert outputs.get("now", {}) is None
    assert outputs.get("find", {"query": "a"}) is not None
    clock.now = 20
    assert outputs.get("find", {"query": "a"}) is None
    assert (len(outputs), outputs._bytes) == (0, 0)


@pytest.mark.parametrize("keep_alive", [0, -1, math.nan, math.inf])
def test_invalid_times_are_refused(keep_alive: float) -> None:
    with pytest.raises(InvalidRequestError, match="keep_alive"):
        ToolOutputs(TOOLS).put("now", {}, "x", keep_alive_s=keep_alive)


def test_a_closed_cache_is_empty_and_stores_nothing() -> None:
    outputs = ToolOutputs(TOOLS)
    outputs.put("now", {}, "x")
    outputs.close()
    assert not outputs.put("now", {}, "x")
    assert outputs.get("now", {}) is None
    assert outputs._bytes == 0


@given(
    st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.booleans(), st.none()), max_size=4),
    st.text(alphabet=st.characters(exclude_categories=["Cs"])),
)
def test_any_json_arguments_find_their_output(arguments: dict[str, Any], output: str) -> None:
    outputs = ToolOutputs(TOOLS)
    assert outputs.put("now", arguments, output)
    written = json.loads(json.dumps(dict(reversed(arguments.items()))))
    found = outputs.get("now", written)
    assert found.output == output


def in_letters(call: ToolCall, output: str) -> TokenizedCall:
    return TokenizedCall(tuple(call.arguments.get("query", "").encode()), 1, ToolReply(0, ()))


class CacheMachine(RuleBasedStateMachine):
    """Compares the cache with dictionaries of outputs that have not expired, and of predicted calls."""

    limits = OutputLimits(entries=5, entry_bytes=200, total_bytes=500, predicted_calls=3)

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.outputs = ToolOutputs(TOOLS, self.limits, self.clock, in_letters, takes_predicted_calls=True)
        self.model: dict[str, tuple[str, float]] = {}
        self.predicted: list[str] = []

    @rule(query=st.sampled_from("abcdefgh"), output=st.text("x", max_size=250), keep=st.integers(1, 5))
    def put(self, query: str, output: str, keep: int) -> None:
        if self.outputs.put("find", {"query": query}, output, keep):
            self.model.pop(query, None)
            self.model[query] = (output, self.clock.now + keep)
            self.predicted = [each for each in self.predicted if each != query]

    @rule(query=st.sampled_from("abcdefgh"))
    def predict(self, query: str) -> None:
        assert self.outputs.predict("find", {"query": query}) is (query not in self.model)
        if query not in self.model:
            self.predicted = [*(each for each in self.predicted if each != query), query]
            self.predicted = self.predicted[-self.limits.predicted_calls :]

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds
        self.model = {query: kept for query, kept in self.model.items() if kept[1] > self.clock.now}

    @invariant()
    def agrees(self) -> None:
        for query in "abcdefgh":
            found = self.outputs.get("find", {"query": query})
            assert (found.output if found else None) == self.model.get(query, (None,))[0]
        drafted = [
            "".join(map(chr, (t for call in calls for t in call.tokens))) for calls in self.outputs.calls()
        ]
        assert drafted == ["".join(reversed(self.model)), "".join(reversed(self.predicted))]
        assert len(self.outputs) == len(self.model) <= self.limits.entries
        assert self.outputs._bytes <= self.limits.total_bytes


TestCacheMachine = CacheMachine.TestCase


def test_predicted_calls_are_taken_where_they_are_drafted() -> None:
    outputs = ToolOutputs(TOOLS, tokenize=in_letters, takes_predicted_calls=True)
    assert not outputs.predict("other", {})
    assert not outputs.predict("find", {"query": "a" * 20_000})
    assert outputs.predict("find", {"query": "a"})
    assert outputs.find([ToolCall("find", {"query": "a"})]) == []
    outputs.close()
    assert not outputs.predict("find", {"query": "a"})
    assert outputs.calls() == ([], [])
    for none in (ToolOutputs(TOOLS, tokenize=in_letters), ToolOutputs(TOOLS, takes_predicted_calls=True)):
        assert not none.predict("find", {"query": "a"})


def test_of_a_request_that_must_call_only_predicted_calls_are_taken() -> None:
    outputs = ToolOutputs(TOOLS, tokenize=in_letters, answers=False, takes_predicted_calls=True)
    assert not outputs.put("find", {"query": "a"}, "A")
    assert outputs.predict("find", {"query": "a"})


def test_what_does_not_fit_is_not_tokenized() -> None:
    tokenized: list[str] = []

    def tokenize(call: ToolCall, output: str) -> TokenizedCall:
        tokenized.append(output)
        return TokenizedCall((), 0, ToolReply(0, ()))

    limits = OutputLimits(entries=3, entry_bytes=100, total_bytes=200)
    outputs = ToolOutputs(TOOLS, limits, tokenize=tokenize)
    assert not outputs.put("find", {"query": "large"}, "x" * 101)
    assert not outputs.put("other", {}, "of another tool")
    assert outputs.put("find", {"query": "a"}, "a" * 50)
    assert outputs.put("find", {"query": "b"}, "b" * 50)
    assert not outputs.put("find", {"query": "c"}, "c" * 90)
    assert outputs.put("find", {"query": "d"}, "d")
    assert not outputs.put("now", {}, "e")
    assert outputs.put("find", {"query": "a"}, "f")
    outputs.close()
    assert not outputs.put("find", {"query": "a"}, "g")
    assert tokenized == ["a" * 50, "b" * 50, "d", "f"]
