"""Which matrices of a GGUF file are one matrix in the converted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest

from agentrt.runtime.model.directory import open_model_directory
from agentrt.runtime.model.fuse_matmuls import fuse_matmuls
from agentrt.runtime.model.openvino_core import openvino_core
from tests.runtime.model.gguf import families
from tests.runtime.model.gguf.families import FAMILIES, LAYERS, write_family


def converted(file: Path, folder: Path) -> ov.Model:
    return openvino_core().read_model(str(open_model_directory(file, folder).graph))


def layer_matmuls(model: ov.Model) -> int:
    """Matmuls with weights of layers: neither the head nor the angles of positions."""
    matmuls = [node for node in model.get_ordered_ops() if node.get_type_name() == "MatMul"]
    return len([node for node in matmuls if node.get_attributes()["transpose_b"]]) - 1


@pytest.mark.check
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_left_to_concatenate_when_the_model_is_opened(family: str, tmp_path: Path) -> None:
    model = converted(write_family(tmp_path / "model.gguf", family), tmp_path)
    assert layer_matmuls(model) == 4 * LAYERS
    fuse_matmuls(model)
    assert layer_matmuls(model) == 4 * LAYERS


def test_matrices_of_different_types_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors: dict[str, Any] = {**families.weights("qwen2")}
    tensors["blk.0.attn_v.weight"] = tensors["blk.0.attn_v.weight"].astype(np.float16)
    monkeypatch.setattr(families, "weights", lambda name: tensors)
    model = converted(write_family(tmp_path / "model.gguf", "qwen2"), tmp_path)
    assert layer_matmuls(model) == 4 * LAYERS + 2
