"""Computes only the rows somebody samples: a cut through the graph behind which the others are dropped.

What follows the last attention (its output projection, the last MLP, the LM head) treats every token by
itself, so tokens whose logits nobody wants need not pass through it. In a prefill that is all but one; with a
vocabulary of 150,000 the LM head alone would be most of the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import openvino as ov
import openvino.opset15 as opset

SAMPLED_ROWS = "sampled_token_indices"
"""The input that names the rows: ``[rows]`` int64, positions in the flat row of tokens."""

# Between the LM head and the logits only these may stand: they treat every row by itself.
_ROW_WISE = {"Add", "Convert", "Divide", "Multiply", "Subtract", "Tanh"}


def gather_sampled_rows(model: ov.Model) -> ov.Model:
    """Return a paged-attention ``model`` whose logits are ``[rows, 1, vocabulary]``.

    The cut is behind the last attention, or behind one of the reshapes that follow it, the first behind which
    shape inference confirms that everything follows the rows; else it is before the LM head.
    """
    nodes = model.get_ordered_ops()
    last = [node for node in nodes if node.get_type_name() == "PagedAttentionExtension"][-1]
    behind = _all_behind(last)
    reshapes = [n for n in nodes if n.get_type_name() == "Reshape" and n.get_friendly_name() in behind]
    for node in (last, *reshapes):
        early = _cut(model, functools.partial(_entries_behind, node.get_friendly_name()))
        if _rows_follow(early):
            return early
    return _cut(model, _before_head)


def _cut(model: ov.Model, find: Callable[[ov.Model], Iterable[ov.Input]]) -> ov.Model:
    """A copy of ``model`` with the rows gathered in front of each input that ``find`` returns."""
    cut = model.clone()
    rows = opset.parameter([-1], ov.Type.i64, name=SAMPLED_ROWS)
    rows.output(0).set_names({SAMPLED_ROWS})
    for target in find(cut):
        gathered = opset.gather(target.get_source_output(), rows, opset.constant(0, ov.Type.i64))
        target.replace_source_output(gathered.output(0))
    cut.add_parameters([rows])
    cut.validate_nodes_and_infer_types()
    return cut


def _all_behind(node: ov.Node) -> set[str]:
    """Names of all nodes that depend on ``node``."""
    behind: set[str] = set()
    pending = [node]
    while pending:
        for output in pending.pop().outputs():
            for consumer in output.get_target_inputs():
                found = consumer.get_node()
                if found.get_friendly_name() not in behind:
                    behind.add(found.get_friendly_name())
                    pending.append(found)
    return behind


def _entries_behind(name: str, model: ov.Model) -> list[ov.Input]:
    """Where token rows enter the part of the graph that depends on the node called ``name``."""
    nodes = model.get_ordered_ops()
    behind = _all_behind(next(node for node in nodes if node.get_friendly_name() == name))

    def holds_token_rows(source: ov.Output) -> bool:
        shape = source.get_partial_shape()
        return bool(shape.rank.is_static and shape.rank.get_length() >= 2 and shape[0].is_dynamic)

    return [
        target
        for node in nodes
        if node.get_friendly_name() in behind
        for target in node.inputs()
        if target.get_source_output().get_node().get_friendly_name() not in behind
        and holds_token_rows(target.get_source_output())
    ]


def _before_head(model: ov.Model) -> list[ov.Input]:
    """The activations that enter the LM head, or the logits themselves if that cannot be found."""
    target = model.get_results()[0].input(0)
    while target.get_source_output().get_node().get_type_name() in _ROW_WISE:
        target = target.get_source_output().get_node().input(0)
    head = target.get_source_output().get_node()
    return [head.input(0)] if head.get_type_name() == "MatMul" else [target]


def _rows_follow(model: ov.Model) -> bool:
    """Whether 3 sampled rows of 7 tokens make 3 rows of logits."""
    probe = model.clone()
    try:
        probe.reshape({"input_ids": [7], "position_ids": [7], SAMPLED_ROWS: [3]})
    except RuntimeError:
        return False  # something behind the cut still counts 7
    rows = probe.outputs[0].get_partial_shape()[0]
    return bool(rows.is_static and rows.get_length() == 3)
