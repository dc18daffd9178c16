"""Every side keeps contexts as it should, on nano."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.bench_model import RandomWords
from agentrt.bench.context import replay as module
from agentrt.bench.context.replay import Setting, Switch, replay
from agentrt.bench.context.swappers import (
    BASELINES,
    IN_MEMORY,
    LMK,
    OURS,
    SWAPPING,
    VLLM_S,
    VLLM_SQ,
    OnDemandSwapper,
    SwapPolicy,
)
from agentrt.bench.context.traces import TASKS, Call, TaskTexts, own_texts
from agentrt.runtime.kv.store.chunk_files import Chunk, ChunkFiles

pytestmark = [pytest.mark.bench, pytest.mark.real_model]

TOKEN_BYTES = 920
"""Of nano at 8 bits; a little more, so that no arena is too small."""
LONGEST = 300
# Two contexts of about 200 tokens by turns: with float16 the memory holds one of them.
TRACE = [Call(at, at % 2, TASKS[at % 2], 100) for at in range(8)]
SETTING = Setting(int(1.2 * LONGEST * TOKEN_BYTES * 2), LONGEST * TOKEN_BYTES, LONGEST)


def texts(count_tokens: Callable[[str], int]) -> TaskTexts:
    return own_texts(RandomWords(0), count_tokens)


def run(
    policy: SwapPolicy, folder: Path, setting: Setting = SETTING, trace: list[Call] = TRACE
) -> list[Switch]:
    return replay("nano", policy, trace, setting, texts, folder)


@pytest.mark.parametrize(
    "policy", [OURS, IN_MEMORY, VLLM_SQ, VLLM_S, SWAPPING], ids=lambda policy: policy.name
)
def test_what_is_stored_is_found(policy: SwapPolicy, tmp_path: Path) -> None:
    switches = run(policy, tmp_path)
    assert switches, "no context was called twice"
    if not policy.recompute:
        for each in switches:
            assert each.cached_tokens >= each.tokens // 32 * 32, "nothing that was known is computed"
    assert all(0 <= each.seconds <= each.ttft_s for each in switches)


@pytest.mark.parametrize("group", [1, 2, None])
def test_so_many_blocks_are_read_and_written_together(
    group: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: dict[str, int] = {}
    write, read = ChunkFiles.write, ChunkFiles.read

    def written(files: ChunkFiles, app: str, chunks: Sequence[Chunk]) -> Any:
        together["write"] = max(together.get("write", 0), len(chunks))
        return write(files, app, chunks)

    def wanted(files: ChunkFiles, locations: Sequence[Any], following: Sequence[Any] = ()) -> Any:
        together["read"] = max(together.get("read", 0), len(locations))
        return read(files, locations, following)

    monkeypatch.setattr(ChunkFiles, "write", written)
    monkeypatch.setattr(ChunkFiles, "read", wanted)
    scarce = Setting(int(1.2 * LONGEST * TOKEN_BYTES), SETTING.context_bytes, LONGEST)
    switches = run(replace(OURS, recompute=False, group=group), tmp_path, scarce)
    assert sum(each.read_bytes for each in switches) > 0
    assert together["write"] > 2 if group is None else together == {"write": group, "read": group}


def test_what_is_dropped_is_computed_again(tmp_path: Path) -> None:
    switches = run(LMK, tmp_path)
    assert any(each.cached_tokens == 0 for each in switches), "a context was dropped as a whole"
    assert not list(tmp_path.rglob("*.chunks")), "nothing was written"


@pytest.mark.parametrize("policy", BASELINES, ids=lambda policy: policy.name)
def test_baselines_evict_by_their_granularity(
    policy: SwapPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evicted: list[tuple[int, int, int]] = []
    evict = OnDemandSwapper._evict

    def noted(swapper: OnDemandSwapper, pool, victim, needed: int) -> None:  # type: ignore[no-untyped-def]
        resident, free = len(swapper._resident(pool, victim)), len(pool._free)
        evict(swapper, pool, victim, needed)
        evicted.append((resident, needed, len(pool._free) - free))

    monkeypatch.setattr(OnDemandSwapper, "_evict", noted)
    # Less memory for 8 bits, so that it is as scarce as for float16.
    scarce = Setting(int(1.2 * LONGEST * TOKEN_BYTES), SETTING.context_bytes, LONGEST)
    run(policy, tmp_path, scarce if policy is VLLM_SQ else SETTING)
    assert evicted
    for resident, needed, freed in evicted:
        assert freed == (resident if policy.whole_contexts else min(resident, needed))


def test_only_blocks_that_are_not_stored_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    write = module.OnDemandSwapper._write

    def noted(swapper: OnDemandSwapper, files, victim, chosen) -> None:  # type: ignore[no-untyped-def]
        before = swapper._store.statistics().chunks
        write(swapper, files, victim, chosen)
        assert swapper._store.statistics().chunks - before <= len(chosen)
        written.extend(each[0] for each in chosen)

    monkeypatch.setattr(OnDemandSwapper, "_write", noted)
    run(SWAPPING, tmp_path, trace=[Call(at, at % 2, TASKS[0], 55) for at in range(10)])
    assert len(set(written)) < len(written), "a context left the memory twice"


def test_a_context_that_is_too_long_begins_again(tmp_path: Path) -> None:
    switches = run(OURS, tmp_path, Setting(SETTING.budget_bytes, SETTING.context_bytes, 150))
    assert switches == [], "every call is the first one of its context"


def test_an_own_disk_slows_reads_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds: list[float] = []
    slow = module.SlowDisk

    def noted(bytes_a_second: float) -> module.SlowDisk:
        speeds.append(bytes_a_second)
        return slow(bytes_a_second)

    monkeypatch.setattr(module, "SlowDisk", noted)
    setting = Setting(SETTING.budget_bytes, SETTING.context_bytes, LONGEST, disk=1e9)
    assert run(VLLM_S, tmp_path, setting)
    assert speeds == [1e9]
