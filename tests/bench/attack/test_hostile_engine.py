"""The hostile engine does what a request's first message says."""

from __future__ import annotations

import pytest

from agentrt.bench.attack.hostile_engine import BEHAVIOURS, BREAKING_OFF, HostileEngine
from agentrt.bench.attack.wire import Answer, exchange, post

pytestmark = pytest.mark.slow


def test_behaviours() -> None:
    assert set(BEHAVIOURS) > BREAKING_OFF
    with HostileEngine() as engine:
        port = int(engine.url.rsplit(":", 1)[1].partition("/")[0])

        def answered(content: str) -> Answer:
            return exchange(port, post("", "/v1/x", {"messages": [{"content": content}]}), None, 5)

        assert answered("anything else").body == b"ok"
        assert answered("closes").status == 0
        assert answered("redirects").status == 307
        assert not answered("ends in a chunk").complete
        assert len(list(answered("sends many events").events())) == 30_002
        assert engine.paths == ["/v1/x"] * 5
