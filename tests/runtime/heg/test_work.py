from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.runtime.heg.partition import Partition
from agentrt.runtime.heg.work import ModelWork
from agentrt.runtime.model.paged import read_paged_graph
from tests.runtime.heg.test_partition import with_skip_connection
from tests.runtime.tiny import LAYERS, VOCABULARY, tiny_model

HIDDEN, INTERMEDIATE = 64, 128
# Two heads of 32, one of them with keys and values.
MATRICES = HIDDEN * (2 * 64 + 2 * 32) + 3 * HIDDEN * INTERMEDIATE


@pytest.mark.check
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_work_is_that_of_the_shape(tiny_folder: Path, architecture: str) -> None:
    work = ModelWork.of(Partition(read_paged_graph(tiny_model(tiny_folder, architecture))))
    assert work.layer_flops == 2 * MATRICES
    assert work.head_flops == 2 * HIDDEN * VOCABULARY
    # 8 bits a weight, and 16 for each 32 of them; small constants are not counted.
    assert MATRICES <= work.layer_bytes <= MATRICES * 1.2
    assert HIDDEN * VOCABULARY <= work.head_bytes <= HIDDEN * VOCABULARY * 1.2
    outputs, inputs = 2 * 64 + 2 * 32 + 2 * INTERMEDIATE + HIDDEN, HIDDEN + 64 + HIDDEN + INTERMEDIATE
    assert work.activation_bytes == 4 * (outputs + inputs)


def test_a_model_that_cannot_be_cut_is_counted_as_a_whole(tiny_folder: Path) -> None:
    model = read_paged_graph(tiny_model(tiny_folder, "llama"))
    whole = ModelWork.of(Partition(with_skip_connection(model)))
    assert whole.layer_flops == pytest.approx(2 * (MATRICES + HIDDEN * VOCABULARY / LAYERS), rel=0.01)
    assert whole.head_flops == 0
