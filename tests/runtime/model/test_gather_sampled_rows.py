from __future__ import annotations

import openvino as ov
import openvino.opset15 as opset
from openvino._offline_transformations import paged_attention_transformation

from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.gather_sampled_rows import SAMPLED_ROWS, gather_sampled_rows
from agentrt.runtime.model.openvino_core import openvino_core


def rows_of_every_matmul(model: ov.Model) -> list[int]:
    """The number of rows of each matmul after the first, when 3 of 7 tokens are sampled."""
    probe = model.clone()
    probe.reshape({"input_ids": [7], "position_ids": [7], SAMPLED_ROWS: [3]})
    matmuls = [node for node in probe.get_ordered_ops() if node.get_type_name() == "MatMul"]
    return [next(iter(node.output(0).get_shape())) for node in matmuls]


def paged(directory: ModelDirectory) -> ov.Model:
    model = openvino_core().read_model(directory.graph)
    paged_attention_transformation(model)
    return model


def test_only_sampled_rows_are_computed_after_the_last_attention(nano_directory: ModelDirectory) -> None:
    model = gather_sampled_rows(paged(nano_directory))
    rows = rows_of_every_matmul(model)
    # The output projection, the three matmuls of the MLP and the LM head follow the last attention.
    assert rows[-5:] == [3] * 5
    assert set(rows[1:-5]) == {7}
    assert [list(output.get_partial_shape())[1:] for output in model.outputs] == [[1, 2048]]


def lay_out_by_tokens(model: ov.Model, target: ov.Input) -> None:
    """Reshape the source of ``target`` by the number of tokens, as some exports do, without effect."""
    ids = next(node for node in model.get_parameters() if "input_ids" in node.output(0).names)
    source = target.get_source_output()
    row = [extent.get_length() for extent in list(source.get_partial_shape())[1:]]
    shape = opset.concat([opset.shape_of(ids), opset.constant(row)], 0)
    target.replace_source_output(opset.reshape(source, shape, False).output(0))
    model.validate_nodes_and_infer_types()


def test_rows_are_gathered_after_a_reshape_that_depends_on_the_tokens(
    nano_directory: ModelDirectory,
) -> None:
    model = paged(nano_directory)
    last = [node for node in model.get_ordered_ops() if node.get_type_name() == "PagedAttentionExtension"][-1]
    lay_out_by_tokens(model, next(iter(last.output(0).get_target_inputs())))
    rows = rows_of_every_matmul(gather_sampled_rows(model))
    assert rows[-5:] == [3] * 5
    assert set(rows[1:-5]) == {7}


def test_rows_are_gathered_in_front_of_the_head_if_nothing_earlier_works(
    nano_directory: ModelDirectory,
) -> None:
    model = paged(nano_directory)
    head = [node for node in model.get_ordered_ops() if node.get_type_name() == "MatMul"][-1]
    lay_out_by_tokens(model, head.input(0))
    rows = rows_of_every_matmul(gather_sampled_rows(model))
    assert (rows[-2], rows[-1]) == (7, 3)
