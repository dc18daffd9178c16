"""Any run, any drafts, any speed: the same transcript, and every speculation accounted for."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt import SpeculationConfig
from agentrt.config import TurnAhead
from agentrt.reports.events import SpeculationEvent
from agentrt.reports.recording import RecordedAnswer, RecordedCall, Recording
from agentrt.testing import RecordedSpeculator, replay
from tests.hypothesis_profiles import examples

WRITES = ("save",)
calls = st.tuples(st.sampled_from(["find", "read", "save"]), st.sampled_from("abc"))
answers = st.tuples(st.lists(calls, max_size=3), st.sampled_from(["", "let me see"]), st.booleans())


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """A run against a world in which what is read depends on what was saved; some tools fail."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    saved: list[str] = []
    turns = []
    weak_ids = draw(st.booleans())
    for made, text, edited in draw(st.lists(answers, min_size=1, max_size=6)):
        calls, done = [], []
        for number, (name, value) in enumerate(made):
            call_id = f"call_{number}" if weak_ids else f"call_{len(messages)}_{number}"
            function = {"name": name, "arguments": json.dumps({"q": value})}
            calls.append({"id": call_id, "type": "function", "function": function})
            arguments = {"q": value + "!" * (edited and number == 0)}  # by a person, before it was made
            fails = name == "find" and value == "c"
            said = "" if fails else f"{name} {arguments['q']} {''.join(saved)}"
            call = RecordedCall(id=call_id, name=name, arguments=arguments, result=said)
            done.append(call.model_copy(update={"error": "LookupError: c"}) if fails else call)
            if name == "save":
                saved.append(value)
        answer = {"role": "assistant", "content": text, "tool_calls": calls or None}
        turns.append(RecordedAnswer(messages=tuple(messages), answer=answer, calls=tuple(done)))
        messages.append(answer)
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": call.error or call.result} for call in done
        ]
    return Recording(turns=tuple(turns))


class Accounts:
    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def on_event(self, event: SpeculationEvent) -> None:
        self.count[type(event).__name__] += 1


@examples(150)
@given(
    recording=recordings(),
    predictors=st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 3.0])), max_size=2
    ),
    seed=st.integers(0, 10**6),
    ahead=st.sampled_from([None, TurnAhead(), TurnAhead(depth=3, max_wasted=50)]),
    most=st.integers(1, 4),
)
def test_a_replay_has_the_same_transcript_with_any_drafts_at_any_speed(
    recording: Recording,
    predictors: list[tuple[float, float]],
    seed: int,
    ahead: TurnAhead | None,
    most: int,
) -> None:
    accounts = Accounts()
    predictors = [
        RecordedSpeculator(recording, claim_rate=rate, seed=seed + number, delay=delay)
        for number, (rate, delay) in enumerate(predictors)
    ]
    config = SpeculationConfig(turn_ahead=ahead, max_speculations=most, wasted_second_weight=0)
    replayed = replay(recording, predictors, writes=WRITES, seed=seed, config=config, observers=[accounts])
    assert replayed.recording.transcript == recording.transcript
    count = accounts.count
    assert count["SpeculationStarted"] == count["CallClaimed"] + count["SpeculationWasted"]
    assert count["AheadStarted"] == count["AheadKept"] + count["AheadWasted"]
    made = sum(call.name not in WRITES for turn in recording.turns for call in turn.calls)
    assert count["CallClaimed"] + count["CallMissed"] <= made


@examples(50)
@given(recording=recordings(), seed=st.integers(0, 10**6))
def test_right_drafts_of_calls_that_change_nothing_never_cost_time(recording: Recording, seed: int) -> None:
    timed = Recording(
        turns=tuple(
            turn.model_copy(
                update={
                    "seconds": 4.0,
                    "calls": tuple(call.model_copy(update={"seconds": 2.0}) for call in turn.calls),
                }
            )
            for turn in recording.turns
        )
    )
    plain = replay(timed, writes=WRITES)
    fast = replay(timed, [RecordedSpeculator(timed, claim_rate=1.0, seed=seed, delay=1.0)], writes=WRITES)
    assert fast.recording.transcript == plain.recording.transcript == recording.transcript
    assert fast.seconds <= plain.seconds
    assert plain.seconds == sum(turn.seconds + sum(c.seconds for c in turn.calls) for turn in timed.turns)
