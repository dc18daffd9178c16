from __future__ import annotations

import json
from typing import Any

from agentrt.runtime.gateway.resumable_request import ResumableRequest

REQUEST: dict[str, Any] = {"stream": True, "messages": [], "tools": [{}]}


def test_a_body_of_too_many_values_is_left_to_the_engine() -> None:
    assert ResumableRequest.parse(json.dumps(REQUEST).encode()) is not None
    assert ResumableRequest.parse(json.dumps(REQUEST | {"stop": [1] * 100_000}).encode()) is None
