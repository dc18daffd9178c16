from __future__ import annotations

import openvino as ov
import openvino.opset15 as opset
from openvino._offline_transformations import paged_attention_transformation

from agentrt.runtime.model import ModelDirectory
from agentrt.runtime.model.openvino_core import openvino_core
from agentrt.runtime.model.rows import SAMPLED_ROWS, keep_sampled_rows


def rows_of_every_product(model: ov.Model) -> list[int]:
    """How many rows each matrix product after the first has when 3 of 7 tokens are sampled."""
    probe = model.clone()
    probe.reshape({"input_ids": [7], "position_ids": [7], SAMPLED_ROWS: [3]})
    products = [node for node in probe.get_ordered_ops() if node.get_type_name() == "MatMul"]
    return [next(iter(node.output(0).get_shape())) for node in products]


def paged(directory: ModelDirectory) -> ov.Model:
    model = openvino_core().read_model(directory.graph)
    paged_attention_transformation(model)
    return model


def test_only_sampled_rows_pass_behind_the_last_attention(nano_directory: ModelDirectory) -> None:
    model = keep_sampled_rows(paged(nano_directory))
    rows = rows_of_every_product(model)
    # The output projection, the three of the MLP and the head are all that is left behind the last attention.
    assert rows[-5:] == [3] * 5
    assert set(rows[1:-5]) == {7}
    assert [list(output.get_partial_shape())[1:] for output in model.outputs] == [[1, 2048]]


def test_where_something_counts_the_tokens_the_head_alone_is_spared(nano_directory: ModelDirectory) -> None:
    model = paged(nano_directory)
    result = model.get_results()[0]
    ids = next(node for node in model.get_parameters() if "input_ids" in node.output(0).names)
    last = [node for node in model.get_ordered_ops() if node.get_type_name() == "PagedAttentionExtension"][-1]
    # The rows behind the last attention are laid out by the number of tokens, as some exports do.
    consumer = next(iter(last.output(0).get_target_inputs()))
    width = opset.constant([last.output(0).get_partial_shape()[1].get_length()])
    counted = opset.reshape(last.output(0), opset.concat([opset.shape_of(ids), width], 0), False)
    consumer.replace_source_output(counted.output(0))
    model.validate_nodes_and_infer_types()
    rows = rows_of_every_product(keep_sampled_rows(model))
    assert (rows[-2], rows[-1]) == (7, 3)
    assert result.get_type_name() == "Result"
