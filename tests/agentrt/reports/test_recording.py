"""Recordings: taken from histories, kept in files, and replayed; a changed one is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import InvalidRequestError
from agentrt.reports.recording import RecordedCall, Recording
from agentrt.testing import RecordedSpeculator, replay

FUNCTION = {"name": "look", "arguments": '{"q": "a"}'}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": FUNCTION}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "found a"},
    {"role": "assistant", "content": "done"},
]


def test_a_history_is_a_recording() -> None:
    recording = Recording.of_history(HISTORY)
    assert [len(turn.messages) for turn in recording.turns] == [1, 3]
    assert recording.turns[0].calls == (
        RecordedCall(id="1", name="look", arguments={"q": "a"}, result="found a"),
    )
    assert recording.transcript == [
        ("model", "", [("look", '{"q": "a"}')]),
        ("tool", ("look", '{"q": "a"}'), "found a", None),
        ("model", "done", []),
    ]


def test_a_recording_comes_back_from_its_file(tmp_path: Path) -> None:
    recording = Recording.of_history(HISTORY)
    recording.save(tmp_path / "run.json")
    assert Recording.load(tmp_path / "run.json") == recording
    (tmp_path / "other.json").write_text('{"turns": 3}')
    with pytest.raises(InvalidRequestError, match="not a recording"):
        Recording.load(tmp_path / "other.json")


def test_a_replay_says_the_same_in_the_recorded_time() -> None:
    recording = Recording.of_history(HISTORY)
    slow = recording.turns[0].model_copy(
        update={"seconds": 40.0, "calls": (recording.turns[0].calls[0].model_copy(update={"seconds": 30.0}),)}
    )
    recording = Recording(turns=(slow, recording.turns[1]))
    plain = replay(recording)
    fast = replay(recording, [RecordedSpeculator(recording, claim_rate=1.0, seed=0, delay=5.0)])
    assert (plain.seconds, fast.seconds) == (70.0, 40.0)
    assert plain.recording.transcript == fast.recording.transcript == recording.transcript
    assert fast.report.total.claims == 1


def test_results_are_those_of_the_state_that_writes_have_left() -> None:
    (turn, _) = Recording.of_history(HISTORY).turns
    before = turn.calls[0]
    save = RecordedCall(id="2", name="save", arguments={}, error="OSError: after it had saved")
    after = before.model_copy(update={"id": "3", "result": "found a and b"})
    recording = Recording(turns=(turn.model_copy(update={"calls": (before, save, after)}),))
    replayed = replay(recording, [RecordedSpeculator(recording, claim_rate=1.0, seed=0)], writes=["save"])
    assert replayed.recording.transcript == recording.transcript
