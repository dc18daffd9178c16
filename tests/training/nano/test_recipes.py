from pathlib import Path
from shutil import copytree

import numpy as np
import openvino as ov
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.files.checksums import check_files, read_checksums
from agentrt.runtime.nano import DRAFT_DIRECTORY, MODEL_DIRECTORY
from training.nano.recipe.recipes import DRAFT, MAIN, NetworkConfig
from training.nano.recipe.refill import refill

MODELS = [(MODEL_DIRECTORY, MAIN.network), (DRAFT_DIRECTORY, DRAFT.network)]


def random_weights(config: NetworkConfig) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    width, head, inner = config.hidden_size, config.head_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (config.vocabulary_size, width),
        "final_norm": (width,),
    }
    for index in range(config.layers):
        shapes |= {
            f"layers.{index}.{name}": shape
            for name, shape in {
                "attention_norm": (width,),
                "mlp_norm": (width,),
                "qkv": ((config.heads + 2) * head, width),
                "qkv_bias": ((config.heads + 2) * head,),
                "attention_out": (width, config.heads * head),
                "gate_up": (2 * inner, width),
                "down": (width, inner),
            }.items()
        }
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(("model", "config"), MODELS)
def test_a_refilled_model_holds_the_new_weights(tmp_path: Path, model: Path, config: NetworkConfig) -> None:
    directory = copytree(model, tmp_path / "model")
    weights = random_weights(config)
    refill(directory, weights, config)
    check_files(directory, read_checksums(directory))

    content = ov.Core().read_model(directory / "openvino_model.xml")
    constants = {
        node.get_friendly_name(): node for node in content.get_ops() if node.get_type_name() == "Constant"
    }

    def matrix(name: str) -> np.ndarray:
        stored, zero_point, scale = (
            constants[f"self.model.{name}.weight{end}"].data.astype(np.float32)
            for end in ("", "/zero_point", "/scale")
        )
        return (stored - zero_point) * scale

    for index in range(config.layers):
        queries = weights[f"layers.{index}.qkv"][: config.hidden_size]
        assert np.abs(matrix(f"layers.{index}.self_attn.q_proj") - queries).max() < 0.02
        down = weights[f"layers.{index}.down"]
        assert np.abs(matrix(f"layers.{index}.mlp.down_proj") - down).max() < 0.02
    assert np.abs(matrix("embed_tokens") - weights["embedding"]).max() < 0.02
    vectors = {
        target.get_node().get_friendly_name().split("/")[0].removeprefix("__module.model."): node.data.ravel()
        for node in constants.values()
        for target in node.output(0).get_target_inputs()
        if node.data.ndim == 3 and node.data.size > 1
    }
    assert np.array_equal(vectors["norm"], weights["final_norm"])
    for index in range(config.layers):
        layer = f"layers.{index}."
        biases = [vectors[f"{layer}self_attn.{name}_proj"] for name in "qkv"]
        assert np.array_equal(np.concatenate(biases), weights[layer + "qkv_bias"])
        assert np.array_equal(vectors[layer + "input_layernorm"], weights[layer + "attention_norm"])
        assert np.array_equal(vectors[layer + "post_attention_layernorm"], weights[layer + "mlp_norm"])


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    directory = copytree(MODEL_DIRECTORY, tmp_path / "model")
    with pytest.raises(ConfigurationError, match="another shape"):
        refill(directory, random_weights(DRAFT.network), DRAFT.network)
