"""Cuts a paged-attention graph into kernels that compute the same values (Agent.xpu §5.1, §5.2).

A layer has one attention, or in a hybrid model one recurrence. A graph can be cut at two kinds of places:

- *Seams*, between two layers, where a single tensor depends on the tokens: the residual stream. The pieces
  between seams are whole layers, of any shape.
- *Around an attention*: its queries, keys and values on one side, its result on the other, and the residual
  stream past it. The operations between two attentions treat every token by itself, so their only free
  dimension is the number of tokens, and ``reshape`` can fix it for a device that needs static shapes.
  Hybrid models are cut at seams only.

A piece with whole layers, or an attention by itself, may also put out attention scores: for each sequence of
the batch and each of its tokens, past and new, the sum over heads and new tokens of the attention paid to it.

Values that depend on positions but not on the tokens themselves (rotary angles, shapes) are not handed over
at a seam: every piece computes them again from the batch's inputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import openvino as ov
import openvino.opset15 as opset

from ..model.gather_sampled_rows import ATTENTION, CONVOLUTION, DELTA_RULE, sequence_ops
from ..model.token_shapes import depends_on_tokens

HIDDEN: Final = "hidden"
"""Input of a piece: the residual stream from the piece before."""
ATTENDED: Final = "attended"
"""Input of a token-level group: the result of the attention before it."""
QUERIES, KEYS, VALUES = "queries", "keys", "values"
"""Inputs of an attention kernel."""
SCORE_WINDOWS: Final = "score_aggregation_window"
"""Input of a piece that puts out attention scores: over how many last tokens of each sequence."""

_SCORE_WINDOWS_PORT: Final = 13
_SCORES_PORT: Final = 1


@dataclass(frozen=True, slots=True)
class _Port:
    """An output of a node, by a name that survives cloning."""

    node: str
    index: int


class Partition:
    """The places where one model can be cut, and the pieces. The model itself is not changed."""

    def __init__(self, model: ov.Model, *, scored_layers: int = 0) -> None:
        """Find the seams of ``model``, as :func:`read_paged_graph` returns it, with unique node names.

        ``scored_layers`` of its attentions, evenly spread, put out their scores.
        """
        self._model = model
        nodes = self._model.get_ordered_ops()
        mixers = _mixers(nodes)
        self._mixers = [_name(node) for node in mixers]
        self.hybrid: Final = any(node.get_type_name() != ATTENTION for node in sequence_ops(nodes))
        """Whether some layers have a recurrence instead of an attention."""
        self.layers: Final = len(self._mixers)
        """Number of layers, one per attention or recurrence."""
        attentions = [at for at, node in enumerate(mixers) if node.get_type_name() == ATTENTION]
        self._scored = spread(attentions, scored_layers)
        self._seams = _find_seams(nodes)
        self.seams: Final = frozenset(self._seams) - {0}
        """Layers in front of which the model can be cut; all but layer 0 in most models."""

    @property
    def complete(self) -> bool:
        """Whether the model can be cut in front of every layer."""
        return len(self.seams) == self.layers - 1

    @property
    def splits(self) -> bool:
        """Whether it can also be cut around its attentions."""
        return self.complete and self.layers > 1 and 0 in self._seams and not self.hybrid

    def layer_segments(self, bounds: Iterable[int]) -> list[ov.Model]:
        """Cut in front of each layer in ``bounds``, ascending, each in :attr:`seams`.

        All pieces but the first take :data:`HIDDEN`; all but the last return it as their only output. Each
        also takes those of the batch's inputs that it needs.
        """
        model = self._model.clone()
        ports = _Ports(model)
        ends: list[list[ov.Node]] = []
        firsts = [0, *bounds]
        for layer in firsts[1:]:
            seam = ports[self._seams[layer]]
            ends.append([opset.result(seam)])
            _cut(seam, HIDDEN)
        ends.append(list(model.get_results()))
        windows = _score_windows()
        for layer in self._scored:
            ends[bisect_right(firsts, layer) - 1].append(_score(ports.node(self._mixers[layer]), windows))
        return [_piece(results) for results in ends]

    def token_groups(self, layers: int) -> list[ov.Model]:
        """Cut the token-level groups of the first ``layers`` layers: ``layers + 1`` pieces, of any shape.

        Group 0 starts from the token ids, group ``i`` from :data:`ATTENDED` (of layer ``i - 1``) and
        :data:`HIDDEN`. All but the last return queries, keys and values of layer ``i`` and the residual
        stream in front of it; the last, whose end must be a seam, only the residual stream.
        """
        groups: list[ov.Model] = []
        # Each group reads the seam in front of it as an input and computes the one behind it, which the next
        # group reads: two copies of the model, each cut at every second seam.
        copies = (self._model.clone(), self._model.clone())
        ports = tuple(_Ports(copy) for copy in copies)
        for layer in range(layers):
            for own in ports:
                _cut(own.node(self._mixers[layer]).output(0), ATTENDED)
            _cut(ports[1 - layer % 2][self._seams[layer]], HIDDEN)
        for layer in range(layers + 1):
            own = ports[layer % 2]
            into = own.node(self._mixers[layer]).input_values()[:3] if layer < layers else []
            groups.append(_piece([opset.result(output) for output in [*into, own[self._seams[layer]]]]))
        return groups

    def attention(self, layer: int) -> ov.Model:
        """Cut out the attention of ``layer``: queries, keys, values and caches in, attended values out."""
        model = self._model.clone()
        attention = _Ports(model).node(self._mixers[layer])
        for index, name in enumerate((QUERIES, KEYS, VALUES)):
            source = attention.input_value(index)
            attention.input(index).replace_source_output(_parameter(source, name).output(0))
        results = [opset.result(attention.output(0))]
        if layer in self._scored:
            results.append(_score(attention, _score_windows()))
        return _piece(results)


def with_static_tokens(piece: ov.Model, tokens: int) -> ov.Model:
    """Return a copy of a token-level group for exactly ``tokens`` tokens.

    Raises:
        ValueError: an operation in it is not token-level.
    """
    static = piece.clone()
    shapes: Mapping[str, ov.PartialShape] = {
        port.get_any_name(): ov.PartialShape(
            [tokens if extent.is_dynamic else extent.get_length() for extent in port.get_partial_shape()]
        )
        for port in static.inputs
    }
    static.reshape(dict(shapes))
    if static.is_dynamic():
        raise ValueError(f"fixing {tokens} tokens leaves {piece.get_friendly_name()} with a dynamic shape")
    return static


class _Ports:
    """Finds nodes of one model by name."""

    def __init__(self, model: ov.Model) -> None:
        self._nodes = {_name(node): node for node in model.get_ordered_ops()}

    def node(self, name: str) -> ov.Node:
        return self._nodes[name]

    def __getitem__(self, port: _Port) -> ov.Output:
        return self._nodes[port.node].output(port.index)


def _mixers(nodes: Iterable[ov.Node]) -> list[ov.Node]:
    """Return the last sequence operation of each layer: a convolution may precede the layer's delta rule."""
    found = sequence_ops(nodes)
    kinds = [node.get_type_name() for node in found]
    return [
        node
        for node, pair in zip(found, zip_longest(kinds, kinds[1:]), strict=True)
        if pair != (CONVOLUTION, DELTA_RULE)
    ]


def spread(layers: Sequence[int], count: int) -> Sequence[int]:
    """Return ``count`` of ``layers``, each from the middle of an equal part, or all if there are fewer."""
    if count >= len(layers):
        return layers
    return [layers[int((part + 0.5) * len(layers) / count)] for part in range(count)]


def _score_windows() -> ov.Node:
    windows = opset.parameter([-1], ov.Type.i32, name=SCORE_WINDOWS)
    windows.output(0).set_names({SCORE_WINDOWS})
    return windows


def _score(attention: ov.Node, windows: ov.Node) -> ov.Node:
    """Have an attention put out its scores over ``windows``; return the result."""
    attention.input(_SCORE_WINDOWS_PORT).replace_source_output(windows.output(0))
    return opset.result(attention.output(_SCORES_PORT))


def _name(node: ov.Node) -> str:
    return str(node.get_friendly_name())


def _find_seams(nodes: list[ov.Node]) -> dict[int, _Port]:
    """Return, by layer, the residual stream in front of it where that is the only live tensor."""
    depends = depends_on_tokens(nodes)
    by_name = {_name(node): node for node in nodes}
    ends_of_layers = {_name(node) for node in _mixers(nodes)}
    last_use: dict[_Port, int] = {}
    for position, node in enumerate(nodes):
        for value in node.input_values():
            source = value.get_node()
            if depends[_name(source)] and source.get_type_name() != "Parameter":
                last_use[_Port(_name(source), value.get_index())] = position
    seams: dict[int, _Port] = {}
    alive: set[_Port] = set()
    layer = 0
    for position, node in enumerate(nodes):
        layer += _name(node) in ends_of_layers
        alive |= {
            port
            for port in (_Port(_name(node), index) for index in range(node.get_output_size()))
            if port in last_use
        }
        alive = {port for port in alive if last_use[port] > position}
        if len(alive) == 1:
            (port,) = alive
            if _holds_token_rows(by_name[port.node].output(port.index)):
                # The last such place before the next layer's attention: the least is computed twice.
                seams[layer] = port
    seams.pop(layer, None)  # no layer follows the last one
    return seams


def _holds_token_rows(output: ov.Output) -> bool:
    """Whether ``output`` is ``[tokens, …]`` of a type that host memory can hold."""
    shape = output.get_partial_shape()
    if shape.rank.is_dynamic or shape.rank.get_length() < 2:
        return False
    tokens, *row = shape
    known = tokens.is_dynamic and all(extent.is_static for extent in row)
    return known and output.get_element_type() in (ov.Type.f32, ov.Type.f16)


def _cut(output: ov.Output, name: str) -> None:
    """Connect all readers of ``output``, except results, to a new input called ``name``."""
    parameter = _parameter(output, name)
    for target in output.get_target_inputs():
        if target.get_node().get_type_name() != "Result":
            target.replace_source_output(parameter.output(0))


def _parameter(output: ov.Output, name: str) -> ov.Node:
    type_ = output.get_element_type()
    # An attention's result has the type of the arithmetic, which is chosen when it is compiled.
    parameter = opset.parameter(
        output.get_partial_shape(), ov.Type.f32 if type_.is_dynamic() else type_, name=name
    )
    parameter.output(0).set_names({name})
    return parameter


def _piece(results: list[ov.Node]) -> ov.Model:
    """Return the model that computes ``results`` from the parameters they depend on."""
    parameters: list[ov.Node] = []
    seen: set[str] = set()
    pending = list(results)
    while pending:
        node = pending.pop()
        # Inputs at cuts have the same names in all pieces, but are unique within one.
        name = f"{node.get_type_name()} {_name(node)}"
        if name in seen:
            continue
        seen.add(name)
        if node.get_type_name() == "Parameter":
            parameters.append(node)
        pending += [value.get_node() for value in node.input_values()]
    return ov.Model(results, parameters, "piece")
