from __future__ import annotations

import pytest

from agentrt.runtime.serving.http.errors import ApiError
from agentrt.runtime.serving.http.open_responses import OpenResponses
from agentrt.runtime.toolcache.outputs import ToolOutputs


def test_an_id_is_forgotten_60_seconds_after_its_end() -> None:
    now = [0.0]
    known = OpenResponses(clock=lambda: now[0])
    with known.register("id", "app", ToolOutputs()):
        assert known.outputs_of("id", "app") is not None
    now[0] = 59
    assert known.outputs_of("id", "app") is None
    now[0] = 60
    with pytest.raises(ApiError):
        known.outputs_of("id", "app")


def test_only_the_latest_ended_responses_are_remembered() -> None:
    known = OpenResponses(clock=lambda: 0.0)
    for number in range(5000):
        with known.register(str(number), "app", ToolOutputs()):
            pass
    assert known.outputs_of("4999", "app") is None
    with pytest.raises(ApiError):
        known.outputs_of("0", "app")
