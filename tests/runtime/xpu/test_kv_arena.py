from __future__ import annotations

from collections.abc import Callable

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.xpu.kv_arena import KVArena
from agentrt.runtime.xpu.loading import LoadedModel
from tests.hypothesis_profiles import first_of


@pytest.fixture(scope="module")
def model(load: Callable[..., LoadedModel]) -> LoadedModel:
    return load()


def arena_of(model: LoadedModel, memory_bytes: int) -> KVArena:
    return KVArena(model.layout, model.platform, memory_bytes)


@pytest.mark.parametrize("memory_bytes", [2**20, 2**22 + 1, 10**7])
def test_the_budget_is_used_and_never_exceeded(model: LoadedModel, memory_bytes: int) -> None:
    arena = arena_of(model, memory_bytes)
    tensors = model.platform.xpus[Role.DECODE].caches.values()
    allocated = sum(tensor.byte_size for tensor in tensors)
    assert allocated == arena.memory_bytes <= memory_bytes < allocated + model.layout.block_bytes
    assert {tensor.shape[0] for tensor in tensors} == {arena.blocks}
    assert arena.capacity_tokens == arena.blocks * 32


def test_the_budget_must_hold_a_block(model: LoadedModel) -> None:
    least = model.layout.block_bytes
    assert arena_of(model, least).blocks == 1
    with pytest.raises(ConfigurationError, match=f"memory_bytes.*{least} bytes"):
        arena_of(model, least - 1)


@pytest.mark.parametrize("precision", first_of(["u8", "f32", "f16"]))
def test_whether_keys_are_quantised_is_read_off_the_model(
    load: Callable[..., LoadedModel], precision: str
) -> None:
    loaded = load(KV_CACHE_PRECISION=precision)
    assert arena_of(loaded, 2**20).quantised_keys == (precision == "u8")


def test_a_budget_beyond_the_machine_is_refused(model: LoadedModel) -> None:
    with pytest.raises(ConfigurationError, match="smaller arena"):
        arena_of(model, 2**60)
