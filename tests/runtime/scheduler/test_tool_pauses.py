from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.scheduler.tool_pauses import ToolPauses


class App:
    """An app whose answers call tools, and whose next requests come or not."""

    def __init__(self, name: str = "app") -> None:
        self.name = name
        self.pauses = ToolPauses()
        self.now = 0.0
        self.answers = 0

    def call(self, *calls: str, told: dict[str, float] | None = None) -> float | None:
        self.answers += 1
        return self.pauses.begin(self.key, 100, self.name, calls, told or {}, self.now)

    @property
    def key(self) -> bytes:
        return str(self.answers).encode()

    def come(self, seconds: float, tokens: int = 120) -> bytes | None:
        self.now += seconds
        return self.pauses.arrive([b"system", self.key, b"more"], tokens, self.now)


def test_what_is_told_goes_before_what_was_learned_and_the_longest_counts() -> None:
    app = App()
    for seconds in (3.0, 5.0, 400.0):
        app.call("search")
        assert app.come(seconds) == app.key
    assert app.call("search") == 5.0
    assert app.call("search", told={"search": 0.25}) == 0.25
    assert app.call("search", "unknown", told={"other": 60}) == 5.0
    assert app.call("search", "unknown", told={"unknown": 60}) == 60


def test_a_tool_after_which_nothing_comes_is_not_waited_for_until_something_does() -> None:
    app = App()
    for _ in range(3):
        assert app.call("finish", told={"finish": 0.1}) is not None or app.answers > 1
        app.pauses.expire([app.key])
    assert app.call("finish", told={"finish": 0.1}) is None
    for _ in range(8):
        app.call("finish")
        app.come(2.0)
    assert app.call("finish") == 2.0


def test_a_late_request_counts_as_it_came() -> None:
    app = App()
    app.call("build")
    app.pauses.expire([app.key])
    app.come(90.0)
    assert app.call("build") == 90.0


def test_a_conversation_that_begins_alike_is_not_the_next_request() -> None:
    app = App()
    app.call("search")
    assert app.come(1.0, tokens=99) is None
    assert app.come(1.0) == app.key


@given(st.lists(st.tuples(st.text(max_size=3), st.floats(-1, 1e6)), max_size=40))
def test_any_pauses(pauses: list[tuple[str, float]]) -> None:
    app = App()
    for tool, seconds in pauses:
        expected = app.call(tool)
        assert expected is None or 0 <= expected < math.inf
        app.now += seconds
        app.pauses.arrive([app.key], 100, app.now)
