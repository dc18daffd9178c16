"""Builds the stateful OpenVINO graph of a decoder-only model, with its weights as parameters.

The graph has the shape in which optimum-intel exports models: inputs ``input_ids``, ``attention_mask``,
``position_ids`` and ``beam_idx``, keys and values in states, output ``logits``. OpenVINO GenAI runs it as it
is, and the paged-attention transformation accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as opset
from numpy.typing import NDArray

from agentrt.errors import ModelFormatError

from ..fuse_matmuls import MAX_FUSED_COLUMNS
from ..sliding_windows import state_sliding_windows
from .file_format import Tensor
from .hyperparameters import Hyperparameters, Layer, Rope
from .quantisation import QUANTISED
from .weights_file import Matrix, Panels, Rows, WeightsFile, feed_forward_panels, project_panels

_UNUSED: Final = ("rope_factors_long.weight", "rope_factors_short.weight", "rope_freqs.weight")
"""Tensors that need not be used."""


@dataclass(frozen=True, slots=True)
class _Linear:
    """A linear layer of a model: the tensors ``NAME.weight`` and, in some models, ``NAME.bias``."""

    name: str
    width: int
    """Rows of its matrix."""
    order: NDArray[np.intp] | None = None
    """Where each row is in the file; None where they are in order."""


class GraphBuilder:
    """Builds the graph of one model from its tensors."""

    def __init__(
        self, model: Hyperparameters, tokens: int, tensors: Mapping[str, Tensor], weights: WeightsFile
    ) -> None:
        """Take the tensors of ``model`` by name; ``weights`` receives them.

        ``tokens`` is the size of the tokenizer's vocabulary, beyond which a model's may be padded.
        """
        self._model = model
        self._tokens = tokens
        self._tensors = dict(tensors)
        self._weights = weights
        self._input_ids = _input("input_ids", [-1, -1])
        self._attention_mask = _input("attention_mask", [-1, -1])
        self._position_ids = _input("position_ids", [-1, -1])
        self._beam_idx = _input("beam_idx", [-1], ov.Type.i32)
        self._sinks: list[ov.Node] = []
        self._masks: dict[int | None, ov.Output] = {}
        self._rotations: dict[Rope, tuple[ov.Output, ov.Output]] = {}

    def build(self) -> ov.Model:
        """Return the graph.

        Raises:
            ModelFormatError: a tensor is missing, has another shape or type than the model needs, or is not
                known to the architecture.
        """
        model = self._model
        vocabulary = self._tensor("token_embd.weight", (None, model.hidden)).shape[0]
        if vocabulary < self._tokens:
            raise ModelFormatError(
                f"it has {self._tokens} tokens, but embeddings of {vocabulary}. Download the file again, or "
                "another conversion of the model."
            )
        shape = (vocabulary, model.hidden)
        embedding = self._matrix(Rows(self._weight("token_embd.weight", shape)))
        state = self._embed(embedding)
        for index, layer in enumerate(model.layers):
            state = self._layer(state, index, layer)
        state = self._norm(state, "output_norm.weight", model.hidden)
        head = embedding
        if "output.weight" in self._tensors:
            head = self._matrix(Rows(self._weight("output.weight", shape)))
        logits = self._logits(project(state, head))
        self._refuse_unknown_tensors()
        logits.set_names({"logits"})
        inputs = [self._input_ids, self._attention_mask, self._position_ids, self._beam_idx]
        graph = ov.Model(
            [opset.result(logits)], self._sinks, [*inputs, *self._weights.parameters], model.architecture
        )
        state_sliding_windows(graph, [layer.sliding_window for layer in model.layers])
        return graph

    def _matrix(self, rows: Rows) -> Matrix | Panels:
        weights = self._weights
        return weights.panels(rows) if weights.keeps(rows.tensor) else weights.matrix(rows)

    def _embed(self, embedding: Matrix | Panels) -> ov.Output:
        axis = opset.constant(0, ov.Type.i32)
        ids = opset.convert(self._input_ids, ov.Type.i32)
        if isinstance(embedding, Panels):
            return _scaled(embedding.gather(ids.output(0)), self._model.embedding_scale)
        state = opset.gather(embedding.values, ids, axis).output(0)
        if embedding.offsets is not None:
            groups = embedding.offsets.get_partial_shape()[1].get_length()
            offsets = opset.unsqueeze(opset.gather(embedding.offsets, ids, axis), _integers(3))
            grouped = opset.reshape(state, _integers(0, 0, groups, -1), True)
            state = opset.reshape(opset.add(grouped, offsets), _integers(0, 0, -1), True).output(0)
        return _scaled(state, self._model.embedding_scale)

    def _logits(self, logits: ov.Output) -> ov.Output:
        logits = _scaled(logits, self._model.logit_scale)
        cap = self._model.logit_softcap
        return logits if cap is None else _scaled(opset.tanh(_scaled(logits, 1 / cap)).output(0), cap)

    def _layer(self, state: ov.Output, index: int, layer: Layer) -> ov.Output:
        model, block = self._model, f"blk.{index}"
        attended = self._attention(self._norm(state, f"{block}.attn_norm.weight", model.hidden), index, layer)
        attended = self._optional_norm(attended, f"{block}.post_attention_norm.weight", model.hidden)
        state = opset.add(state, _scaled(attended, model.residual_scale)).output(0)
        fed = self._feed_forward(self._norm(state, f"{block}.ffn_norm.weight", model.hidden), block)
        fed = self._optional_norm(fed, f"{block}.post_ffw_norm.weight", model.hidden)
        return opset.add(state, _scaled(fed, model.residual_scale)).output(0)

    def _feed_forward(self, state: ov.Output, block: str) -> ov.Output:
        width = self._tensor(f"{block}.ffn_down.weight", (self._model.hidden, None)).shape[1]
        if f"{block}.ffn_gate.weight" in self._tensors:
            gates = [_Linear(f"{block}.ffn_gate", width), _Linear(f"{block}.ffn_up", width)]
            whole = self._whole_feed_forward(state, block, width)
            if whole is not None:
                return whole
            gate, up = self._linears(state, gates)
        else:
            gate, up = _split(self._linear(state, _Linear(f"{block}.ffn_up", 2 * width)), [width, width])
        gate = opset.swish(gate) if self._model.activation == "silu" else opset.gelu(gate, "TANH")
        activated = opset.multiply(gate, up).output(0)
        return self._linear(activated, _Linear(f"{block}.ffn_down", self._model.hidden))

    def _whole_feed_forward(self, state: ov.Output, block: str, width: int) -> ov.Output | None:
        """Return one operation for it; None where its weights are not multiplied as they are."""
        hidden = self._model.hidden
        shapes = {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
        names = {f"{block}.ffn_{name}": shape for name, shape in shapes.items()}
        if any(f"{name}.bias" in self._tensors for name in names):
            return None
        if not all(
            self._weights.keeps(self._tensor(f"{name}.weight", shape)) for name, shape in names.items()
        ):
            return None
        panels = [
            self._weights.panels(Rows(self._weight(f"{name}.weight", shape))) for name, shape in names.items()
        ]
        return feed_forward_panels(state, panels, self._model.activation)

    def _attention(self, state: ov.Output, index: int, layer: Layer) -> ov.Output:
        model, block = self._model, f"blk.{index}"
        query, key, value = self._query_key_value(state, block)
        query = self._optional_norm(query, f"{block}.attn_q_norm.weight", model.head_size)
        key = self._optional_norm(key, f"{block}.attn_k_norm.weight", model.head_size)
        query, key, value = (opset.transpose(x, _integers(0, 2, 1, 3)).output(0) for x in (query, key, value))
        if layer.rope is not None:
            sines = self._sines_and_cosines(layer.rope)
            query, key = _rotated(query, *sines, model.head_size), _rotated(key, *sines, model.head_size)
        keys = self._with_past(key, f"past_key_values.{index}.keypresent.{index}.key")
        values = self._with_past(value, f"past_key_values.{index}.valuepresent.{index}.key")
        attended = opset.scaled_dot_product_attention(
            query,
            self._for_each_query(keys),
            self._for_each_query(values),
            self._mask(layer.sliding_window),
            opset.constant(np.float32(model.attention_scale)),
            False,
        )
        flat = opset.reshape(
            opset.transpose(attended, _integers(0, 2, 1, 3)),
            _integers(0, 0, model.heads * model.head_size),
            True,
        )
        return self._linear(flat.output(0), _Linear(f"{block}.attn_output", model.hidden))

    def _query_key_value(self, state: ov.Output, block: str) -> list[ov.Output]:
        """Queries, keys and values, each ``[sequences, tokens, heads, head size]``."""
        model = self._model
        heads = (model.heads, model.key_value_heads, model.key_value_heads)
        widths = [count * model.head_size for count in heads]
        if f"{block}.attn_qkv.weight" in self._tensors:
            parts = _split(self._linear(state, _Linear(f"{block}.attn_qkv", sum(widths))), widths)
        else:
            orders = (self._half_order(heads[0]), self._half_order(heads[1]), None)
            parts = self._linears(
                state,
                [
                    _Linear(f"{block}.attn_{name}", width, order)
                    for name, width, order in zip("qkv", widths, orders, strict=True)
                ],
            )
        return [
            opset.reshape(part, _integers(0, 0, count, model.head_size), True).output(0)
            for part, count in zip(parts, heads, strict=True)
        ]

    def _half_order(self, heads: int) -> NDArray[np.intp] | None:
        """Where each row of queries or keys is in the file, if the file has them interleaved.

        llama.cpp rotates elements 2i and 2i + 1 of a head in such models; here the halves of a head rotate.
        """
        if not self._model.paired_rope:
            return None
        size = self._model.head_size
        rope = next((layer.rope for layer in self._model.layers if layer.rope is not None), None)
        rotated = 2 * len(rope.frequencies) if rope is not None else 0
        head = np.concatenate([np.arange(0, rotated, 2), np.arange(1, rotated, 2), np.arange(rotated, size)])
        order: NDArray[np.intp] = (np.arange(heads)[:, None] * size + head).reshape(-1)
        return order

    def _with_past(self, new: ov.Output, name: str) -> ov.Output:
        """The state called ``name`` with ``new`` appended, which is also the next state."""
        heads, size = self._model.key_value_heads, self._model.head_size
        sequences = opset.gather(opset.shape_of(self._input_ids), _integers(0), opset.constant(0))
        empty = opset.broadcast(
            opset.constant(np.float32(0)), opset.concat([sequences, _integers(heads, 0, size)], 0)
        )
        past = opset.read_value(empty, name, ov.Type.f32, ov.PartialShape([-1, heads, -1, size]))
        chosen = opset.gather(past, self._beam_idx, opset.constant(0))
        whole = opset.concat([chosen, new], 2)
        self._sinks.append(opset.assign(whole, name))
        return whole.output(0)

    def _for_each_query(self, heads: ov.Output) -> ov.Output:
        """Repeat each head of keys or values for the query heads that share it."""
        model = self._model
        shared = model.heads // model.key_value_heads
        if shared == 1:
            return heads
        repeated = opset.broadcast(
            opset.unsqueeze(heads, opset.constant(2)),
            _integers(1, 1, shared, 1, 1),
            broadcast_spec="BIDIRECTIONAL",
        )
        return opset.reshape(repeated, _integers(0, model.heads, -1, model.head_size), True).output(0)

    def _mask(self, window: int | None) -> ov.Output:
        """Which positions each token attends to: ``[sequences, 1, tokens, all tokens]`` boolean."""
        if window not in self._masks:
            self._masks[window] = self._new_mask(window)
        return self._masks[window]

    def _new_mask(self, window: int | None) -> ov.Output:
        zero, one = opset.constant(0), opset.constant(1)
        tokens = opset.gather(opset.shape_of(self._input_ids), one, zero)
        total = opset.gather(opset.shape_of(self._attention_mask), one, zero)
        keys = opset.range(zero, total, one, "i64")
        queries = opset.unsqueeze(opset.range(opset.subtract(total, tokens), total, one, "i64"), one)
        seen = opset.less_equal(keys, queries)
        if window is not None:
            seen = opset.logical_and(seen, opset.greater(keys, opset.add(queries, opset.constant(-window))))
        kept = opset.unsqueeze(opset.not_equal(self._attention_mask, zero), _integers(1, 2))
        return opset.logical_and(kept, opset.unsqueeze(seen, _integers(0, 1))).output(0)

    def _sines_and_cosines(self, rope: Rope) -> tuple[ov.Output, ov.Output]:
        """``[sequences, 1, tokens, rotated elements]``, shared by all layers that rotate alike."""
        if rope not in self._rotations:
            frequencies = np.array(rope.frequencies, np.float64)
            if rope.factors in self._tensors:
                frequencies /= self._vector(rope.factors, len(frequencies))
            positions = opset.convert(opset.unsqueeze(self._position_ids, opset.constant(1)), ov.Type.f32)
            column = opset.constant(frequencies.astype(np.float32)[None, :, None])
            angles = opset.transpose(opset.matmul(column, positions, False, False), _integers(0, 2, 1))
            both = opset.concat([angles, angles], -1)
            self._rotations[rope] = tuple(
                _scaled(opset.unsqueeze(function(both), opset.constant(1)).output(0), rope.attention_factor)
                for function in (opset.sin, opset.cos)
            )
        return self._rotations[rope]

    def _linear(self, state: ov.Output, linear: _Linear) -> ov.Output:
        (projected,) = self._linears(state, [linear])
        return projected

    def _linears(self, state: ov.Output, linears: Sequence[_Linear]) -> list[ov.Output]:
        """Return what each of ``linears`` makes of ``state``.

        They are one matrix in the file if it is narrow enough to gain by that
        (:data:`~agentrt.runtime.model.fuse_matmuls.MAX_FUSED_COLUMNS`) and all of it is stored alike. Weights
        that are concatenated only when a model is opened are in memory twice.
        """
        columns = state.get_partial_shape()[-1].get_length()
        rows = [
            Rows(self._weight(f"{each.name}.weight", (each.width, columns)), each.order) for each in linears
        ]
        biases = [self._bias(each) for each in linears]
        if all(self._weights.keeps(each.tensor) for each in rows):
            products = project_panels(state, [self._weights.panels(each) for each in rows])
            return [_biased(each, bias) for each, bias in zip(products, biases, strict=True)]
        widths = [each.width for each in linears]
        layouts = {self._weights.layout(part.tensor) for part in rows}
        if len(layouts) > 1 or len({bias is None for bias in biases}) > 1 or sum(widths) > MAX_FUSED_COLUMNS:
            return [self._project(state, [part], [bias]) for part, bias in zip(rows, biases, strict=True)]
        whole = self._project(state, rows, biases)
        return [whole] if len(widths) == 1 else _split(whole, widths)

    def _project(
        self, state: ov.Output, rows: Sequence[Rows], biases: Sequence[NDArray[np.float32] | None]
    ) -> ov.Output:
        added = [bias for bias in biases if bias is not None]
        return _biased(project(state, self._weights.matrix(*rows)), np.concatenate(added) if added else None)

    def _bias(self, linear: _Linear) -> NDArray[np.float32] | None:
        name = f"{linear.name}.bias"
        if name not in self._tensors:
            return None
        bias = self._vector(name, linear.width)
        return bias if linear.order is None else bias[linear.order]

    def _norm(self, state: ov.Output, name: str, width: int) -> ov.Output:
        """Root mean square norm over the last dimension."""
        square = opset.power(state, opset.constant(np.float32(2)))
        mean = opset.reduce_mean(square, _integers(-1), True)
        root = opset.sqrt(opset.add(mean, opset.constant(np.float32(self._model.norm_epsilon))))
        normed = opset.multiply(state, opset.divide(opset.constant(np.float32(1)), root))
        return opset.multiply(normed, opset.constant(self._vector(name, width))).output(0)

    def _optional_norm(self, state: ov.Output, name: str, width: int) -> ov.Output:
        return self._norm(state, name, width) if name in self._tensors else state

    def _weight(self, name: str, shape: tuple[int, int]) -> Tensor:
        tensor = self._tensor(name, shape)
        if tensor.type not in QUANTISED and tensor.type.name not in ("F32", "F16", "BF16"):
            raise ModelFormatError(
                f"its tensor {name!r} has the type {tensor.type.name}, which no model uses for weights. "
                "Download the file again, or another quantisation of the model."
            )
        return self._tensors.pop(name)

    def _vector(self, name: str, length: int) -> NDArray[np.float32]:
        self._tensor(name, (length,))
        return self._weights.vector(self._tensors.pop(name))

    def _tensor(self, name: str, shape: Sequence[int | None]) -> Tensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ModelFormatError(
                f"it has no tensor {name!r}, which {self._model.architecture} models need. Download the file "
                "again, or another conversion of the model."
            )
        if len(tensor.shape) != len(shape) or any(
            wanted not in (None, found) for wanted, found in zip(shape, tensor.shape, strict=True)
        ):
            raise ModelFormatError(
                f"its tensor {name!r} has the shape {list(tensor.shape)}, not {list(shape)}. Download the "
                "file again, or another conversion of the model."
            )
        return tensor

    def _refuse_unknown_tensors(self) -> None:
        unknown = [name for name in self._tensors if name not in _UNUSED]
        if unknown:
            raise ModelFormatError(
                f"it has {len(unknown)} tensors that {self._model.architecture} models do not have, such as "
                f"{unknown[0]!r}: without them its answers would be wrong. Export the model by optimum-cli "
                "export openvino."
            )


def _input(name: str, shape: Sequence[int], type: ov.Type = ov.Type.i64) -> ov.op.Parameter:
    parameter = opset.parameter(list(shape), type, name=name)
    parameter.output(0).set_names({name})
    return parameter


def _integers(*values: int) -> ov.Node:
    return opset.constant(np.array(values, np.int64))


def _split(value: ov.Output, widths: Sequence[int]) -> list[ov.Output]:
    parts: list[ov.Output] = opset.variadic_split(value, opset.constant(-1), _integers(*widths)).outputs()
    return parts


def _scaled(value: ov.Output, factor: float) -> ov.Output:
    return value if factor == 1.0 else opset.multiply(value, opset.constant(np.float32(factor))).output(0)


def _biased(value: ov.Output, bias: NDArray[np.float32] | None) -> ov.Output:
    return value if bias is None else opset.add(value, opset.constant(bias)).output(0)


def project(state: ov.Output, matrix: Matrix | Panels) -> ov.Output:
    """Return ``state`` times the transposed matrix.

    The offset of a group of weights multiplies the sum of the activations of the group's columns.
    """
    if isinstance(matrix, Panels):
        (product,) = project_panels(state, [matrix])
        return product
    product = opset.matmul(state, matrix.values, False, True)
    if matrix.offsets is None:
        return product.output(0)
    groups = matrix.offsets.get_partial_shape()[1].get_length()
    sums = opset.reduce_sum(opset.reshape(state, _integers(0, 0, groups, -1), True), _integers(-1), False)
    return opset.add(product, opset.matmul(sums, matrix.offsets, False, True)).output(0)


def _rotated(heads: ov.Output, sines: ov.Output, cosines: ov.Output, head_size: int) -> ov.Output:
    """Rotate the halves of each head; elements beyond the rotated ones stay as they are."""
    rotated = sines.get_partial_shape()[-1].get_length()
    kept = None
    if rotated < head_size:
        heads, kept = opset.variadic_split(
            heads, opset.constant(-1), _integers(rotated, head_size - rotated)
        ).outputs()
    half, end, step, axis = _integers(rotated // 2), _integers(2**63 - 1), _integers(1), _integers(3)
    minus_one = opset.constant(np.full((1, 1, 1, 1), -1, np.float32))  # a shape that fuses to one operation
    turned = opset.concat(
        [
            opset.multiply(opset.slice(heads, half, end, step, axis), minus_one),
            opset.slice(heads, _integers(0), half, step, axis),
        ],
        -1,
    )
    result = opset.add(opset.multiply(heads, cosines), opset.multiply(turned, sines)).output(0)
    return result if kept is None else opset.concat([result, kept], -1).output(0)
