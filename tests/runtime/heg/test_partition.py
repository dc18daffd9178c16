from __future__ import annotations

from pathlib import Path

import openvino as ov
import openvino.opset15 as opset
import pytest

from agentrt.runtime.heg.partition import (
    ATTENDED,
    HIDDEN,
    KEYS,
    QUERIES,
    SCORE_WINDOWS,
    VALUES,
    Partition,
    with_static_tokens,
)
from agentrt.runtime.model.read_graph import read_paged_graph
from tests.runtime.tiny import ARCHITECTURES, exported_models, tiny_model


@pytest.fixture(scope="module", params=("nano", *ARCHITECTURES, *exported_models()))
def model(request: pytest.FixtureRequest, tiny_folder: Path) -> ov.Model:
    return read_paged_graph(tiny_model(tiny_folder, request.param))


def inputs(piece: ov.Model) -> set[str]:
    return {name for port in piece.inputs for name in port.names}


def constant_bytes(piece: ov.Model) -> int:
    return sum(node.get_byte_size() for node in piece.get_ops() if node.get_type_name() == "Constant")


def test_every_layer_has_a_seam_in_front_and_attentions_can_be_cut_out(model: ov.Model) -> None:
    partition = Partition(model)
    assert partition.layers == sum(name.startswith("key_cache.") for name in inputs(model))
    assert partition.seams == set(range(1, partition.layers))
    assert partition.complete
    assert partition.splits


def test_segments_hand_over_one_tensor_and_share_no_layer(model: ov.Model) -> None:
    partition = Partition(model)
    segments = partition.layer_segments(sorted(partition.seams))
    for layer, segment in enumerate(segments):
        caches = {name for name in inputs(segment) if "cache" in name}
        assert caches == {f"key_cache.{layer}", f"value_cache.{layer}"}
        assert (HIDDEN in inputs(segment)) == (layer > 0)
        assert len(segment.outputs) == 1
    assert "sampled_token_indices" in inputs(segments[-1])
    # A weight that two pieces need would be in memory twice. The embedding may be the LM head, too.
    one = constant_bytes(partition.layer_segments(())[0])
    embedding = constant_bytes(segments[0]) - constant_bytes(segments[1])
    assert sum(map(constant_bytes, segments)) <= one + max(embedding, 0) + 10_000 * len(segments)


def test_token_level_groups_have_no_shape_but_the_number_of_tokens(model: ov.Model) -> None:
    partition = Partition(model)
    *groups, last = partition.token_groups(partition.layers - 1)
    assert HIDDEN not in inputs(groups[0])
    for group in groups[1:]:
        assert {HIDDEN, ATTENDED} <= inputs(group)
        assert len(group.outputs) == 4
    assert len(last.outputs) == 1
    for group in (*groups, last):
        assert not any("cache" in name or "block" in name for name in inputs(group))
        static = with_static_tokens(group, 48)
        assert not static.is_dynamic()
        assert {port.get_shape()[0] for port in static.outputs} == {48}


def test_an_attention_kernel_has_no_weights(model: ov.Model) -> None:
    attention = Partition(model).attention(1)
    assert {QUERIES, KEYS, VALUES, "key_cache.1", "value_cache.1"} <= inputs(attention)
    assert constant_bytes(attention) < 10_000


def test_the_model_itself_is_not_changed(model: ov.Model) -> None:
    before = [node.get_friendly_name() for node in model.get_ordered_ops()]
    partition = Partition(model)
    partition.layer_segments(sorted(partition.seams))
    partition.token_groups(1)
    partition.attention(0)
    assert [node.get_friendly_name() for node in model.get_ordered_ops()] == before


def test_a_piece_with_another_dynamic_extent_cannot_be_static() -> None:
    ids = opset.parameter([-1], ov.Type.i64, name="ids")
    ids.output(0).set_names({"ids"})
    found = opset.non_zero(ids, ov.Type.i64)
    with pytest.raises(ValueError, match="dynamic shape"):
        with_static_tokens(ov.Model([found], [ids], "counts"), 16)


def with_skip_connection(model: ov.Model) -> ov.Model:
    """Add the first layer's attention of ``model`` to the last layer's: two tensors live at every seam."""
    model = model.clone()
    attentions = [n for n in model.get_ordered_ops() if n.get_type_name() == "PagedAttentionExtension"]
    first, last = attentions[0].output(0), attentions[-1].output(0)
    targets = last.get_target_inputs()
    added = opset.add(last, opset.convert_like(first, last))
    added.set_friendly_name("skip")
    for target in targets:
        target.replace_source_output(added.output(0))
    model.validate_nodes_and_infer_types()
    return model


def test_a_model_whose_layers_share_more_than_the_stream_is_not_cut(tiny_folder: Path) -> None:
    model = with_skip_connection(read_paged_graph(tiny_model(tiny_folder, "nano")))
    partition = Partition(model)
    assert partition.seams == frozenset()
    assert not partition.complete
    assert not partition.splits
    (whole,) = partition.layer_segments(())
    assert inputs(whole) == inputs(model)


def test_scored_attentions_put_out_scores_and_leave_the_seams(model: ov.Model) -> None:
    plain, scored = Partition(model), Partition(model, scored_layers=2)
    assert scored.seams == plain.seams
    segments = scored.layer_segments(sorted(scored.seams))
    outputs = [len(segment.outputs) for segment in segments]
    assert sorted(outputs) == [1] * (scored.layers - 2) + [2, 2]
    for layer, segment in enumerate(segments):
        assert (SCORE_WINDOWS in inputs(segment)) == (outputs[layer] == 2)
        if layer + 1 < scored.layers:
            assert len(scored.attention(layer).outputs) == outputs[layer]
    assert all(len(segment.outputs) == 1 for segment in plain.layer_segments(sorted(plain.seams)))
    every = Partition(model, scored_layers=99).layer_segments(())[0]
    assert len(every.outputs) == 1 + plain.layers
