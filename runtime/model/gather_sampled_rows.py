"""Drops the activations of tokens that are not sampled, right after the last layer's attention or recurrence.

Everything after it (its output projection, the last MLP, the LM head) computes each token on
its own, so it needs to run only for tokens whose logits are sampled. In a prefill that is one token per
prompt; with a vocabulary of 150,000 the LM head alone would otherwise be most of the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final

import openvino as ov
import openvino.opset15 as opset

ATTENTION: Final = "PagedAttentionExtension"
CONVOLUTION: Final = "PagedCausalConv1D"
"""In hybrid models: a layer by itself (LFM2), or in front of a delta rule (Qwen3-Next, Qwen3.5)."""
DELTA_RULE: Final = "PagedGatedDeltaNet"

SAMPLED_ROWS: Final = "sampled_token_indices"
"""The input that names the sampled rows: ``[rows]`` int64, positions in the flat batch of tokens."""

# The operations that may stand between the LM head and the logits: they compute each row on its own.
_ROW_WISE: Final = {"Add", "Convert", "Divide", "Multiply", "Subtract", "Tanh"}


def sequence_ops(nodes: Iterable[ov.Node]) -> list[ov.Node]:
    """Return the operations among ``nodes`` that read or write a sequence's context, in order.

    All others compute each token by itself. The context is keys and values, or a state of fixed size.
    """
    return [node for node in nodes if node.get_type_name() in (ATTENTION, CONVOLUTION, DELTA_RULE)]


def gather_sampled_rows(model: ov.Model) -> ov.Model:
    """Return a copy of a paged-attention ``model`` whose logits are ``[rows, 1, vocabulary]``.

    Rows are gathered after the last attention or recurrence, or after one of the reshapes that follow it: at
    the first of these places for which shape inference confirms that all later shapes follow the number of
    rows. If there is none, they are gathered in front of the LM head.
    """
    nodes = model.get_ordered_ops()
    last = sequence_ops(nodes)[-1]
    dependents = dependents_of(last)
    reshapes = [n for n in nodes if n.get_type_name() == "Reshape" and n.get_friendly_name() in dependents]
    for node in (last, *reshapes):
        gathered = _gather_at(model, functools.partial(_inputs_of_dependents, node.get_friendly_name()))
        if _shapes_follow_rows(gathered):
            return gathered
    return _gather_at(model, _inputs_of_head)


def _gather_at(model: ov.Model, find: Callable[[ov.Model], Iterable[ov.Input]]) -> ov.Model:
    """A copy of ``model`` with the sampled rows gathered in front of each input that ``find`` returns."""
    copy = model.clone()
    rows = opset.parameter([-1], ov.Type.i64, name=SAMPLED_ROWS)
    rows.output(0).set_names({SAMPLED_ROWS})
    for target in find(copy):
        gathered = opset.gather(target.get_source_output(), rows, opset.constant(0, ov.Type.i64))
        target.replace_source_output(gathered.output(0))
    copy.add_parameters([rows])
    copy.validate_nodes_and_infer_types()
    return copy


def dependents_of(node: ov.Node) -> set[str]:
    """Names of all nodes that depend on ``node``."""
    dependents: set[str] = set()
    pending = [node]
    while pending:
        for output in pending.pop().outputs():
            for consumer in output.get_target_inputs():
                found = consumer.get_node()
                if found.get_friendly_name() not in dependents:
                    dependents.add(found.get_friendly_name())
                    pending.append(found)
    return dependents


def _inputs_of_dependents(name: str, model: ov.Model) -> list[ov.Input]:
    """The inputs by which token rows enter the part of the graph that depends on the node called ``name``."""
    nodes = model.get_ordered_ops()
    dependents = dependents_of(next(node for node in nodes if node.get_friendly_name() == name))

    def holds_token_rows(source: ov.Output) -> bool:
        shape = source.get_partial_shape()
        return bool(shape.rank.is_static and shape.rank.get_length() >= 2 and shape[0].is_dynamic)

    return [
        target
        for node in nodes
        if node.get_friendly_name() in dependents
        for target in node.inputs()
        if target.get_source_output().get_node().get_friendly_name() not in dependents
        and holds_token_rows(target.get_source_output())
    ]


def _inputs_of_head(model: ov.Model) -> list[ov.Input]:
    """The input of the LM head's activations, or that of the logits if the head is not found."""
    target = model.get_results()[0].input(0)
    while target.get_source_output().get_node().get_type_name() in _ROW_WISE:
        target = target.get_source_output().get_node().input(0)
    head = target.get_source_output().get_node()
    return [head.input(0)] if head.get_type_name() == "MatMul" else [target]


def _shapes_follow_rows(model: ov.Model) -> bool:
    """Whether 3 sampled rows of 7 tokens give 3 rows of logits."""
    probe = model.clone()
    try:
        probe.reshape({"input_ids": [7], "position_ids": [7], SAMPLED_ROWS: [3]})
    except RuntimeError:
        return False  # a shape after the gathered rows still depends on the 7 tokens
    rows = probe.outputs[0].get_partial_shape()[0]
    return bool(rows.is_static and rows.get_length() == 3)
