from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from agentrt.calls import TextDelta
from agentrt.errors import InvalidRequestError
from agentrt.runtime import Finished, LocalRuntime, LogprobsDelta

HELLO = [{"role": "user", "content": "Hello!"}]


def test_logprobs_come_with_tokens_and_before_text(runtime: LocalRuntime) -> None:
    plain = runtime.generate(HELLO, max_tokens=12)
    given = runtime.generate(HELLO, max_tokens=12, logprobs=3)
    assert plain.logprobs == ()
    assert given.token_ids == plain.token_ids
    assert [entry.token for entry in given.logprobs] == list(given.token_ids)
    for entry in given.logprobs:
        assert entry.top[0] == (entry.token, entry.logprob)  # greedy decoding takes the most likely token
        assert len(entry.top) == 3
        assert sum(math.exp(logprob) for _, logprob in entry.top) <= 1.0 + 1e-9

    async def streamed() -> list[Any]:
        return [event async for event in runtime.stream(HELLO, max_tokens=12, logprobs=3)]

    events = asyncio.run(streamed())
    assert [entry for event in events if isinstance(event, LogprobsDelta) for entry in event.tokens] == list(
        given.logprobs
    )
    # The probabilities of tokens come before their text.
    assert isinstance(events[0], LogprobsDelta)
    assert isinstance(events[1], TextDelta)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.generation.logprobs == given.logprobs


@pytest.mark.parametrize("logprobs", [21, True])
def test_invalid_numbers_are_refused(runtime: LocalRuntime, logprobs: Any) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        runtime.generate(HELLO, max_tokens=1, logprobs=logprobs)
    assert raised.value.field == "logprobs"
