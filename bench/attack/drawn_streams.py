"""Streams of an engine that Hypothesis draws: events, blank lines, comments, cut characters, huge ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_PARTS: Final = (
    b'data: {"id":"e","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
    b'data: {"id":"e","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":'
    b'{"name":"read","arguments":"[1,"}}]}}]}\n\n',
    b'data: {"choices":[],"usage":{"completion_tokens":1}}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n',
    b'data: {"id":"',
    b'data: {"choices":[{"index":0,"delta":{"x":[',
    b"data: [DONE]\n\n",
    *(b"1,", b'{"a":1},', b"1e-300,", b'"', b'"},', b"[", b"\\u00e9", b"\xe2\x82", b"\xff"),
    *(b"\n", b"\r", b"\r\n", b"\n\r", b":", b": ping\n\n", b"data:\n", b"id: 1\n", b"event: x\r\n"),
)
_MOST_BYTES: Final = 4 * 2**20


def draw_streams(number: int, act: Callable[[bytes], object]) -> None:
    """Call ``act`` with ``number`` streams of up to 24 MiB, the same in each run."""
    from hypothesis import HealthCheck, Phase, given, settings  # of the extra bench
    from hypothesis import strategies as st

    pieces = st.tuples(
        st.sampled_from(_PARTS) | st.binary(min_size=1, max_size=64),
        st.sampled_from((1, 2, 1000, 50_000, 4 << 20)),
    ).map(lambda drawn: drawn[0] * min(drawn[1], _MOST_BYTES // len(drawn[0])))

    @settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(pieces, min_size=1, max_size=6).map(b"".join))
    def act_on_each(stream: bytes) -> None:
        act(stream)

    act_on_each()
