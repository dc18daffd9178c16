from __future__ import annotations

import json
from typing import Any

import pytest

from agentrt.runtime.serving.gateway.resumable_request import ResumableRequest

REQUEST: dict[str, Any] = {"stream": True, "messages": [], "tools": [{}]}


def test_a_body_of_too_many_values_is_left_to_the_engine() -> None:
    assert ResumableRequest.parse(json.dumps(REQUEST).encode()) is not None
    assert ResumableRequest.parse(json.dumps(REQUEST | {"stop": [1] * 100_000}).encode()) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"continue_final_message": True, "add_generation_prompt": False},
        {"add_generation_prompt": False},
        {"kv_transfer_params": {"do_remote_prefill": True}},
    ],
)
def test_a_request_about_one_prompt_is_not_continued_with_the_next(fields: dict[str, Any]) -> None:
    assert ResumableRequest.parse(json.dumps(REQUEST | fields).encode()) is None
    unset = dict.fromkeys(fields, None)
    assert ResumableRequest.parse(json.dumps(REQUEST | unset).encode()) is not None
