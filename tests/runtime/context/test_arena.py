from __future__ import annotations

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.context import KVArena
from agentrt.runtime.model import ModelDirectory, PagedModel, compile_paged_model


@pytest.fixture(scope="module")
def model(nano_directory: ModelDirectory) -> PagedModel:
    return compile_paged_model(nano_directory, "CPU", {"INFERENCE_NUM_THREADS": 1})


@pytest.mark.parametrize("memory_bytes", [2**20, 2**22 + 1, 10**7])
def test_the_budget_is_used_and_never_exceeded(model: PagedModel, memory_bytes: int) -> None:
    arena = KVArena(model, memory_bytes)
    allocated = sum(tensor.byte_size for _, tensor in arena._tensors)
    assert allocated == arena.memory_bytes <= memory_bytes < allocated + model.block_bytes
    assert {tensor.shape[0] for _, tensor in arena._tensors} == {arena.blocks}
    assert arena.capacity_tokens == arena.blocks * 32


def test_one_block_is_the_least(model: PagedModel) -> None:
    assert KVArena(model, model.block_bytes).blocks == 1
    with pytest.raises(ConfigurationError, match=f"memory_bytes.*{model.block_bytes} bytes"):
        KVArena(model, model.block_bytes - 1)


def test_more_than_the_machine_has(model: PagedModel) -> None:
    with pytest.raises(ConfigurationError, match="smaller arena"):
        KVArena(model, 2**60)
