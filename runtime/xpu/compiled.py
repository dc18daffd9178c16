"""The compiled kernels of one XPU, and their inferences, bound to the buffers of a batch."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

import numpy as np
import openvino as ov
import openvino.opset15 as opset
from numpy.typing import NDArray

from agentrt.errors import ConfigurationError

from ..heg.kernel import Kernel, KernelKind
from ..heg.partition import ATTENDED, HIDDEN, KEYS, QUERIES, VALUES
from ..model.dynamic_quantization import quantization_properties
from ..model.gather_sampled_rows import ATTENTION, SAMPLED_ROWS
from ..model.native.library import has_native_products
from ..model.openvino_core import has_bf16, openvino_core, openvino_message, piece_properties
from ..model.paged import CACHES, STATE_TABLES
from .buffers import BatchBuffers

Shape: TypeAlias = tuple[int, ...]
"""The lengths that the shapes of a piece's operations depend on: tokens, and logits rows where it has them.
Attention alone reads inputs of other lengths, as they are at each run."""

_MOST: Final = 8
"""Interruptions after which a piece is settled in any case."""


class InferenceShapes:
    """Which shapes a compiled piece can be run with after an interruption.

    OpenVINO's CPU plugin prepares an operation anew if the shapes of its inputs are not those with which it
    ran last, and it prepares operations some way ahead of the one that runs. So an interrupted inference
    leaves operations that ran last with an earlier shape and are prepared for the interrupted one. With
    inputs of the earlier shape they would not be prepared anew: they would fail, or compute with memory of
    the wrong size. Inputs of any other shape are safe, and so are those of the interrupted inference.
    """

    def __init__(self) -> None:
        """Of a piece that was never run."""
        self.last: Shape | None = None
        """With which it was run last."""
        self._earlier: list[Shape] = []

    def end(self, shape: Shape) -> None:
        """Note an inference that has ended."""
        self.last = shape
        if self._earlier:
            self._earlier = []

    def interrupt(self, shape: Shape) -> None:
        """Note one that was interrupted."""
        if self.last is not None:  # else no operation has run with another one
            self._earlier.append(self.last)
        self.last = shape

    def allow(self, shape: Shape) -> bool:
        """Return whether the piece computes correctly with ``shape`` now; else run :meth:`unlike` first."""
        if not self._earlier:
            return True
        if len(self._earlier) > _MOST:
            return False
        assert self.last is not None
        return not any(
            length == before != interrupted
            for earlier in self._earlier
            for length, before, interrupted in zip(shape, earlier, self.last, strict=True)
        )

    def unlike(self) -> Shape:
        """Return a small shape of an interrupted piece, with no length that would not be prepared anew."""
        assert self.last is not None
        seen = zip(*self._earlier, self.last, strict=True)
        return tuple(next(each for each in itertools.count(1) if each not in lengths) for lengths in seen)


_ACTIVATIONS: Final = (ATTENDED, QUERIES, KEYS, VALUES)
_LOGITS: Final = "logits"
_PRECISION: Final = "INFERENCE_PRECISION_HINT"
_ONE_RUN: Final = (0,)

_COMPILING: Final = 2
"""Pieces compiled at once: one has a core while another waits for Python's global lock."""

Piece: TypeAlias = tuple[KernelKind, int]
"""A compiled piece: its kind, and its place among those of the kind."""


def least_sequences(models: Iterable[ov.Model]) -> int:
    """Return how many sequences a batch must have for its tokens to be computed alike in any batch.

    OpenVINO's attention has other kernels for batches of fewer sequences than the CPU has threads.
    """
    return os.cpu_count() or 1 if has_native_products(models) else 0


class PieceCompiler:
    """Compiles the pieces of a model for one device."""

    def __init__(self, device: str, properties: Mapping[str, Any]) -> None:
        """``properties`` that the device does not know are left out."""
        self._device = device
        core = openvino_core()
        # A device refuses properties it does not know: an NPU, for instance, the number of CPU threads.
        known = set(core.get_property(device, "SUPPORTED_PROPERTIES"))
        self._requested = properties
        self.properties: Final = {
            **{name: value for name, value in properties.items() if name in known},
            **piece_properties(device),
        }
        precision = self.properties.get(_PRECISION) or core.get_property(device, _PRECISION)
        self._bf16 = _is_bf16(precision) and has_bf16(device)
        keys_in_bf16 = _is_bf16(self.properties.get("KV_CACHE_PRECISION")) and has_bf16(device)
        self._attends_in_bf16 = keys_in_bf16 and not self._bf16

    def compile(self, model: ov.Model, piece: Piece, count: int) -> ov.CompiledModel:
        """Compile ``model``, which is ``piece`` of ``count`` pieces of its kind.

        Raises:
            ConfigurationError: the device refuses the properties.
        """
        if self._bf16:
            model = _with_bf16_activations(model, len(activations_of(*piece, count)))
        if self._attends_in_bf16:
            model = _with_bf16_attention(model)
        try:
            return openvino_core().compile_model(model, self._device, self.properties)
        except (RuntimeError, TypeError) as error:
            settings = ", ".join(f"{name}={value}" for name, value in self._requested.items())
            raise ConfigurationError(
                f"OpenVINO cannot compile the model for {self._device} with {settings}: "
                f"{openvino_message(error)} Leave precisions at None, or choose a kv_cache_precision equal "
                "to inference_precision, or u8."
            ) from error

    def compile_all(self, models: Sequence[ov.Model], kind: KernelKind) -> list[ov.CompiledModel]:
        """Compile ``models``, all pieces of ``kind``, several at once; see :meth:`compile`."""
        count = len(models)
        pieces = ((kind, index) for index in range(count))
        with ThreadPoolExecutor(_COMPILING, "agentrt-compile") as pool:
            return list(pool.map(self.compile, models, pieces, itertools.repeat(count)))

    def load(self, exported: NDArray[np.uint8]) -> ov.CompiledModel:
        """Import a compiled piece that was exported with these properties, and that refers to ``exported``.

        Raises:
            RuntimeError: it cannot be imported.
        """
        tensor = ov.Tensor(exported, shared_memory=True)
        compiled = openvino_core().import_model(tensor, self._device, self.properties)
        compiled.exported = exported  # OpenVINO does not keep it
        return compiled


class CompiledKernels:
    """All kernels of one XPU, compiled; weights are in memory once per kind of kernel."""

    def __init__(
        self, pieces: Mapping[KernelKind, Sequence[ov.Model]], device: str, properties: Mapping[str, Any]
    ) -> None:
        """Compile ``pieces``, the models that :class:`Partition` cuts, those of each kind in order.

        Raises:
            ConfigurationError: the device refuses these properties.
        """
        self.device: Final = device
        models = [model for each in pieces.values() for model in each]
        chosen = quantization_properties(models, device, properties)
        self.compiler: Final = PieceCompiler(device, {**properties, **chosen})
        self._compiled = {kind: self.compiler.compile_all(models, kind) for kind, models in pieces.items()}
        self._last_runs: dict[Piece, float] = {}
        self._shapes: defaultdict[Piece, InferenceShapes] = defaultdict(InferenceShapes)

    def bind(self, kind: KernelKind, index: int, caches: Mapping[str, ov.Tensor]) -> BoundInference:
        """Create an inference of piece ``index`` of ``kind``, with these caches and state tables."""
        pieces = self._compiled[kind]
        activations = activations_of(kind, index, len(pieces))
        return BoundInference(pieces[index], activations, caches, self._shapes[kind, index])

    def replace(self, kind: KernelKind, index: int, compiled: ov.CompiledModel) -> None:
        """Replace piece ``index`` of ``kind``, which must not be running, by one that computes the same."""
        self._compiled[kind][index] = compiled
        self._shapes.pop((kind, index), None)
        self._last_runs.pop((kind, index), None)

    def compiled(self, kind: KernelKind, index: int) -> ov.CompiledModel:
        """Return piece ``index`` of ``kind``."""
        return self._compiled[kind][index]

    def count(self, kind: KernelKind) -> int:
        """Return how many pieces of ``kind`` there are."""
        return len(self._compiled.get(kind, ()))

    def note_run(self, kind: KernelKind, indices: Iterable[int], ended: float) -> None:
        """Note when pieces ran last: since then they hold scratch memory."""
        for index in indices:
            self._last_runs[kind, index] = ended

    @property
    def holding(self) -> set[Piece]:
        """The pieces that hold scratch memory."""
        return set(self._last_runs)

    def release_memory(self, last_run_by: float, running: Kernel | None) -> bool:
        """Free the scratch memory of pieces that have not run since ``last_run_by``. False if there are none.

        Their next run allocates it again. Pieces of ``running`` keep theirs.
        """
        kept = set() if running is None else {(running.kind, index) for index in running.segments}
        idle = [
            piece for piece, ended in self._last_runs.items() if ended <= last_run_by and piece not in kept
        ]
        for kind, index in idle:
            del self._last_runs[kind, index]
            self._compiled[kind][index].release_memory()
        return bool(idle)

    def close(self) -> None:
        """Free all pieces, and with them the weights, except what an inference that runs still needs."""
        self._compiled.clear()

    @property
    def models(self) -> Iterable[ov.CompiledModel]:
        """All compiled pieces of all kinds."""
        return (compiled for pieces in self._compiled.values() for compiled in pieces)


def activations_of(kind: KernelKind, index: int, count: int) -> tuple[str, ...]:
    """Return the activations that piece ``index`` of ``count`` puts out, in order; none if it is logits."""
    if kind is KernelKind.ATTENTION:
        return (ATTENDED,)
    if index == count - 1:
        return (HIDDEN,) if kind is KernelKind.TOKENS else ()
    return (QUERIES, KEYS, VALUES, HIDDEN) if kind is KernelKind.TOKENS else (HIDDEN,)


def _is_bf16(precision: object) -> bool:
    return str(precision) in ("bf16", str(ov.Type.bf16))


def _with_bf16_attention(piece: ov.Model) -> ov.Model:
    """Return a copy of ``piece`` whose attention alone is in bf16, as OpenVINO needs it for keys in bf16."""
    piece = piece.clone()
    for node in piece.get_ordered_ops():
        if node.get_type_name() == ATTENTION:
            readers = node.output(0).get_target_inputs()
            for place in range(3):  # queries, keys and values
                node.input(place).replace_source_output(
                    opset.convert(node.input_value(place), "bf16").output(0)
                )
            node.validate_and_infer_types()
            attended = opset.convert(node.output(0), "f32").output(0)
            for reader in readers:
                reader.replace_source_output(attended)
    piece.validate_nodes_and_infer_types()
    return piece


def _with_bf16_activations(piece: ov.Model, outputs: int) -> ov.Model:
    """Return a copy of ``piece`` with activations in bf16, for a device that computes in it.

    An output in f32 would keep the whole residual stream of the piece in f32, with conversions around every
    addition to it: for one token 5 % of the time. The uncut model has it in bf16 as well.
    """
    piece = piece.clone()
    exchange = ov.preprocess.PrePostProcessor(piece)
    for index, port in enumerate(piece.inputs):
        if port.get_any_name() in (HIDDEN, *_ACTIVATIONS):
            exchange.input(index).tensor().set_element_type(ov.Type.bf16)
    for index in range(outputs):
        exchange.output(index).tensor().set_element_type(ov.Type.bf16)
    return exchange.build()


class BoundInference:
    """An infer request of one compiled piece, bound to the buffers of a batch and the caches of the arena."""

    def __init__(
        self,
        compiled: ov.CompiledModel,
        outputs: Sequence[str],
        caches: Mapping[str, ov.Tensor],
        shapes: InferenceShapes,
    ) -> None:
        """Create the infer request and bind the caches to it.

        ``outputs`` names the activations that it writes to the buffers; none for the piece that ends in
        logits. All inferences of a piece share ``shapes``, as they share its operations.
        """
        self.shapes = shapes
        self._compiled = compiled  # a request does not keep memory that the model only refers to
        self.request = compiled.create_infer_request()
        self.seconds = float("inf")
        """How long its last run took; infinite before the first."""
        inputs = [port.get_partial_shape() for port in compiled.inputs]
        is_dynamic = any(shape.is_dynamic for shape in inputs)
        self.static_tokens: int | None = None if is_dynamic else inputs[0][0].get_length()
        """Tokens that one run computes, all inputs being ``[tokens, …]``; None if it computes any number."""
        self._inputs: list[tuple[int, str, ov.Output]] = []
        for index, port in enumerate(compiled.inputs):
            name = port.get_any_name()
            if name.startswith((*CACHES, *STATE_TABLES)):
                self.request.set_input_tensor(index, caches[name])
            else:
                self._inputs.append((index, name, port))
        # Logits or activations come first.
        written = outputs or (_LOGITS,)
        self._outputs = list(zip(range(len(written)), written, compiled.outputs, strict=False))
        self._writes_stream = HIDDEN in outputs
        self._samples = any(name == SAMPLED_ROWS for _, name, _ in self._inputs)
        self._scores = range(len(written), len(compiled.outputs))
        self.scored = bool(self._scores)
        """Whether it puts out attention scores."""
        self._logits: NDArray[np.float32] | None = None
        # Of the buffers, when their tensors were bound.
        self._version = self._current = self._begin = -1
        self._bound_inputs: list[ov.Tensor | None] = [None] * len(compiled.inputs)
        self._bound_outputs: list[ov.Tensor | None] = [None] * len(written)

    def shape(self, buffers: BatchBuffers) -> Shape:
        """Return what the shapes of its operations depend on; see :class:`InferenceShapes`."""
        return (buffers.tokens, buffers.rows) if self._samples else (buffers.tokens,)

    def runs(self, buffers: BatchBuffers) -> Sequence[int]:
        """Return the first rows of the runs that compute the batch in ``buffers``.

        A piece of a static shape is repeated until all tokens are computed. The rows of the last run that
        are left over are padding: the operations of such a piece treat every token by itself.
        """
        return _ONE_RUN if self.static_tokens is None else range(0, buffers.tokens, self.static_tokens)

    def bind(self, buffers: BatchBuffers, begin: int = 0) -> None:
        """Bind the tensors of ``buffers``, the same at every call, that have changed since the last one.

        ``begin`` is one of :meth:`runs`.
        """
        if self._version == buffers.version and self._current == buffers.current and self._begin == begin:
            return
        self._version, self._current, self._begin = buffers.version, buffers.current, begin
        for index, name, port in self._inputs:
            tensor = self._tensor(buffers, name, port, begin, next=False)
            if tensor is not self._bound_inputs[index]:
                self.request.set_input_tensor(index, tensor)
                self._bound_inputs[index] = tensor
        for index, name, port in self._outputs:
            tensor = self._tensor(buffers, name, port, begin, next=True)
            if tensor is not self._bound_outputs[index]:
                self.request.set_output_tensor(index, tensor)
                self._bound_outputs[index] = tensor
                if name == _LOGITS:
                    self._logits = tensor.data.reshape(tensor.shape[0], tensor.shape[-1])

    def _tensor(
        self, buffers: BatchBuffers, name: str, port: ov.Output, begin: int, *, next: bool
    ) -> ov.Tensor:
        """Return the tensor of an input or, ``next``, of an output."""
        if name == _LOGITS:
            return buffers.logits(port)
        is_activation = name == HIDDEN or name in _ACTIVATIONS
        if name == HIDDEN:
            name = buffers.stream_name(next=next)
        if self.static_tokens is None:
            return buffers.activation(name, port) if is_activation else buffers.input(name)
        end = begin + self.static_tokens
        if is_activation:
            return buffers.activation_rows(name, port, begin, end)
        return buffers.input_rows(name, begin, end)

    def finish(self, buffers: BatchBuffers) -> NDArray[np.float32] | None:
        """After the inference: swap the residual stream, or return ``[logits rows, vocabulary]`` logits."""
        if self._writes_stream:
            buffers.swap_stream()
        return self._logits

    def scores(self) -> list[NDArray[np.float32]]:
        """After the inference: the attention scores of each scored layer, the sequences one after the other.

        A sequence has one for each token, past and new.
        """
        return [self.request.get_output_tensor(index).data.astype(np.float32) for index in self._scores]
