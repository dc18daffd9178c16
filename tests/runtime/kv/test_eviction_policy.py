from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.block_pool import BlockPool
from agentrt.runtime.kv.eviction_policy import EvictionPolicy, ExpectedReturn


@dataclass(frozen=True)
class Use:
    """A request: the first blocks of a conversation, which begins as all of its app do."""

    at: float
    app: str
    conversation: int
    blocks: int
    again: float
    """When the conversation continues; infinite if it does not."""

    @property
    def hashes(self) -> list[bytes]:
        common = [f"{self.app} {place}" for place in range(min(2, self.blocks))]
        own = [f"{self.app} {self.conversation} {place}" for place in range(2, self.blocks)]
        return [text.encode() for text in (*common, *own)]


Hint: TypeAlias = Callable[[Use], float | None]
"""When a conversation is expected, after a use; None if it is not."""


def draw_uses(seed: int, apps: int, count: int, steady: float) -> list[Use]:
    """Conversations that grow by a few blocks and pause for times of very different lengths, then end."""
    rng = random.Random(seed)
    uses: list[Use] = []
    begins = 0.0
    for conversation in range(count):
        begins += rng.expovariate(1.0)
        app = f"app {rng.randrange(apps)}"
        at, blocks = begins, 2
        turns = 1 + int(rng.expovariate(1 / 4))
        usual = rng.choice([0.3, 3.0, 30.0])
        for turn in range(turns):
            blocks += 1 + rng.randrange(3)
            pause = usual * rng.uniform(1, 1 + steady)
            again = at + pause if turn + 1 < turns else float("inf")
            uses.append(Use(at, app, conversation, blocks, again))
            at = again
    return sorted(uses, key=lambda use: use.at)


def misses(uses: list[Use], capacity: int, hint: Hint | None) -> Counter[str]:
    """Return the blocks that each app computes; without ``hint`` under LRU."""
    pool = BlockPool(capacity)
    computed: Counter[str] = Counter()
    for use in uses:
        pool.eviction.expire(use.at)
        hashes = use.hashes[:capacity]
        table = pool.acquire_cached(hashes)
        missing = hashes[len(table) :]
        computed[use.app] += len(missing)
        fresh = pool.allocate(len(missing))
        for block, block_hash in zip(fresh, missing, strict=True):
            pool.cache(block, block_hash, use.app)
        key = f"{use.app} {use.conversation}".encode()
        pool.eviction.end(key)
        pool.release(table + fresh)
        at = None if hint is None else hint(use)
        if at is not None:
            pool.eviction.expect(expected(hashes, at, app=use.app, key=key))
    pool.check_integrity([])
    return computed


def expected(hashes: list[bytes], at: float, **fields: Any) -> ExpectedReturn:
    usual = ExpectedReturn(
        key=hashes[-1],
        hashes=hashes,
        app="",
        context_id="",
        at=at,
        late=at + 1,
        until=at + 10,
        level=0,
    )
    return replace(usual, **fields)


def right(use: Use) -> float | None:
    return use.again if use.again < float("inf") else None


def inverted(use: Use) -> float | None:
    return use.at + 1000 / (use.again - use.at + 0.01)


def nothing_but_what_ends(use: Use) -> float | None:
    return use.at + 1e6 if use.again == float("inf") else None


HINTS: dict[str, Callable[[random.Random], Hint]] = {
    "random": lambda rng: lambda use: rng.choice([None, use.at, use.at + 0.01, use.at + 1, use.at + 1e9]),
    "inverted": lambda _: inverted,
    "one app claims all": lambda _: lambda use: use.at + 0.001 if use.app == "app 0" else right(use),
    "one app, for ever": lambda _: lambda use: use.at + 1e9 if use.app == "app 0" else None,
    "only what ends": lambda _: nothing_but_what_ends,
}


@given(
    kind=st.sampled_from(sorted(HINTS)),
    seed=st.integers(0, 2**20),
    apps=st.integers(1, 3),
    capacity=st.integers(8, 120),
)
def test_wrong_expectations_cost_no_app_more_than_a_constant(
    kind: str, seed: int, apps: int, capacity: int
) -> None:
    uses = draw_uses(seed, apps, 200, steady=0.2)
    lru = misses(uses, capacity, None)
    ours = misses(uses, capacity, HINTS[kind](random.Random(seed)))
    for app, computed in ours.items():
        assert computed <= lru[app] * 1.05 + EvictionPolicy(capacity).most_owed + 1


@pytest.mark.parametrize("capacity", [60, 120, 240])
def test_right_expectations_save_most_of_what_can_be_saved(capacity: int) -> None:
    uses = draw_uses(7, 3, 2000, steady=0.1)
    least = sum(misses(uses, 100_000, None).values())
    lru = sum(misses(uses, capacity, None).values()) - least
    ours = sum(misses(uses, capacity, right).values()) - least
    assert ours < lru * 0.7


def test_a_decision_ends_a_few_of_many_expectations() -> None:
    policy = EvictionPolicy(4096)
    contexts = [[b"%d %d" % (context, place) for place in range(64)] for context in range(64)]
    for hashes in contexts:
        for block_hash in hashes:
            policy.computed(block_hash, "app")
        for block_hash in reversed(hashes):
            policy.released(block_hash)
        policy.expect(
            ExpectedReturn(
                key=hashes[-1],
                hashes=hashes,
                app="app",
                context_id="",
                at=1.0,
                late=2.0,
                until=2.0,
                level=0.0,
            )
        )
    ended: list[bytes] = []
    while expired := policy.expire(3.0):
        assert len(expired) <= 2
        assert policy.next_expiry() <= 3.0 or len(ended) + len(expired) == 64, "the engine goes on at once"
        ended += expired
    assert ended == [hashes[-1] for hashes in contexts]
    assert (policy.expected, policy.kept_from(1.0)) == (0, 0)
