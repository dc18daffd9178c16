"""Branches beside a draft, in one forward pass: tokens are the same, and blocks are where they belong."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.runtime import LocalRuntime
from agentrt.runtime.drafting.drafter import Drafter
from agentrt.runtime.scheduler.batch import Branch
from agentrt.runtime.scheduler.batch_builder import BatchBuilder
from agentrt.runtime.scheduler.block_manager import BlockManager
from agentrt.runtime.scheduler.draft import NO_DRAFT, Draft
from tests.runtime.conftest import open_exact
from tests.runtime.engine.test_engine import submit

TOKENS = 48
PROMPT = [300 + place * place % 97 for place in range(50)]
"""The answer crosses several KV blocks."""

pytestmark = pytest.mark.usefixtures("whole_drafts")


@pytest.fixture(scope="module", params=["f32", "u8"])
def branching(request: pytest.FixtureRequest) -> Iterator[LocalRuntime]:
    """A runtime that verifies branches as an NPU does: up to 32 tokens in one pass."""

    def checked_branch(blocks: BlockManager, *arguments: Any) -> Branch | None:
        made = branch(blocks, *arguments)
        assert made is None or not blocks.pool._hash_of.keys() & made.blocks, "cached ones stay"
        return made

    branch = BlockManager.branch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchBuilder, "_free_tokens", lambda _: 32)
        patch.setattr(BlockManager, "branch", checked_branch)
        with open_exact(kv_cache_precision=request.param) as runtime:
            yield runtime


class Source(Drafter):
    """Drafts ``right`` tokens of the script and then wrong ones, in the passes whose turn it is.

    The later of two sources is surer of itself, so that its draft is no branch unless it is far shorter.
    """

    def __init__(self, script: tuple[int, ...], plan: list[tuple[int, int]], salt: int) -> None:
        self._script, self._plan, self._salt = script, plan, salt
        self._appended = self._pass = 0

    def append(self, token: int) -> None:
        self._appended += 1

    def draft(self) -> Draft:
        right, wrong = self._plan[self._pass % len(self._plan)]
        self._pass += 1
        rest = self._script[self._appended :]
        tokens = [*rest[:right], *((token + self._salt) % 2048 for token in rest[right : right + wrong])]
        return Draft(tuple(tokens), (1 - 0.9 ** (1 + self._salt),) * len(tokens)) if tokens else NO_DRAFT


apps = map(str, itertools.count())


def answer(
    runtime: LocalRuntime, drafters: list[Any], app: str | None = None, **params: Any
) -> tuple[int, ...]:
    """Answer in blocks that hold nothing, so that reading what was not written does not go unnoticed."""
    for cache in runtime._platform.caches.values():
        cache.data[runtime._pool._free] = 0xFF if cache.data.dtype == np.uint8 else np.nan
    salt = (next(apps) if app is None else app).encode()
    request = submit(runtime, TOKENS, prompt=PROMPT, drafters=drafters, prefix_salt=salt, **params)
    return request.output.result(30).token_ids


plans = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5)


@pytest.mark.hypothesis
@given(plans=st.lists(plans, min_size=2, max_size=4), sampled=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_branches_change_no_token(
    branching: LocalRuntime, plans: list[list[tuple[int, int]]], *, sampled: bool
) -> None:
    params = {"temperature": 1.5, "seed": 3} if sampled else {}
    plain = answer(branching, [], **params)
    drafters = [Source(plain, plan, salt) for salt, plan in enumerate(plans, 1)]
    assert answer(branching, drafters, **params) == plain
    branching._scheduler.check_integrity()


def test_the_branch_that_is_right_saves_its_passes(branching: LocalRuntime) -> None:
    plain = answer(branching, [])
    before = branching.statistics().engine
    wrong, right = Source(plain, [(0, 9)], 1), Source(plain, [(8, 0)], 1)
    assert answer(branching, [wrong, right]) == plain
    after = branching.statistics().engine
    assert after.accepted_tokens - before.accepted_tokens >= TOKENS * 3 // 4
    assert after.steps - before.steps <= TOKENS // 6


@pytest.mark.parametrize("first", range(3))
def test_every_second_token_is_a_branch_s(branching: LocalRuntime, first: int) -> None:
    """Whatever place of a block the pass begins at."""
    plain = answer(branching, [])
    wrong, right = Source(plain, [(first, 4), (0, 4)], 1), Source(plain, [(1, 2)], 2)
    assert answer(branching, [wrong, right]) == plain


def test_what_branches_wrote_is_not_in_the_prefix_cache(branching: LocalRuntime) -> None:
    """The answer as the next prompt gives the same answer as computed anew."""
    plain = answer(branching, [])
    sides = [Source(plain, [(3, 5)], 1), Source(plain, [(0, 9)], 2), Source(plain, [(6, 2)], 3)]
    answer(branching, sides, "app")
    prompt = [*PROMPT, *plain]
    outputs = [
        submit(branching, 8, prompt=prompt, prefix_salt=salt).output.result(30) for salt in (b"app", None)
    ]
    assert outputs[0].cached_tokens > 0 == outputs[1].cached_tokens
    assert outputs[0].token_ids == outputs[1].token_ids
