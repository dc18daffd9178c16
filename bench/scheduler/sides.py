"""The two sides of the scheduler bench, each in a process of its own, serving one schedule of requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from ..common.bench_model import BenchModel
from ..common.machine import describe_machine
from ..common.openvino_genai import continuous_batching
from ..common.process import SideProcess
from .texts import Texts, count_tokens

SideName: TypeAlias = Literal["agentrt", "openvino_genai"]

_CACHE_GB = 1
_GROUP_SIZE: Final = "DYNAMIC_QUANTIZATION_GROUP_SIZE"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a schedule."""

    at_s: float
    """When it is meant to arrive, from the beginning."""
    prompt_tokens: int
    """About so many: the text is made of whole words."""
    answer_tokens: int
    reactive: bool


@dataclass(frozen=True, slots=True)
class Served:
    """Result of an arrival; times are seconds since its scheduled arrival, however late it was sent."""

    arrival: Arrival
    prompt_tokens: int
    first_s: float
    total_s: float
    waited_s: float | None = None
    """Until its first kernel began; None where the side cannot say."""

    @property
    def token_s(self) -> float:
        """Time a token of the answer, after the first one."""
        return (self.total_s - self.first_s) / max(1, self.arrival.answer_tokens - 1)


@dataclass(frozen=True, slots=True)
class Run:
    """Results of one schedule."""

    served: tuple[Served, ...]
    elapsed_s: float
    """From the beginning to the last answer."""
    preemption_s: tuple[float, ...] = ()
    """For each reactive arrival that found a background kernel running: how long that went on."""


class _AgentRT:
    def __init__(self, model: BenchModel) -> None:
        from agentrt.runtime import LocalRuntime, RuntimeConfig

        self._runtime = LocalRuntime.open(
            model.path, RuntimeConfig(memory_bytes=_CACHE_GB * 2**30, constrain_tool_calls=False)
        )
        self._texts = Texts(model, self._runtime.count_tokens)

    def context_length(self) -> int:
        return self._runtime.context_length

    def serve(self, arrivals: Sequence[Arrival]) -> Run:
        return asyncio.run(self._serve(arrivals))

    async def _serve(self, arrivals: Sequence[Arrival]) -> Run:
        texts = [self._texts.take(arrival.prompt_tokens) for arrival in arrivals]
        with self._runtime.record_trace() as trace:
            begun = time.perf_counter()
            served = await asyncio.gather(
                *(self._one(arrival, text, begun) for arrival, text in zip(arrivals, texts, strict=True))
            )
            elapsed = time.perf_counter() - begun
        background = [kernel for kernel in trace.kernels if not kernel.reactive]
        remaining = []
        for one in served:
            if one.arrival.reactive:
                arrived = begun + one.arrival.at_s
                found = [k.ended - arrived for k in background if k.started <= arrived < k.ended]
                remaining += found[:1]
        return Run(tuple(served), elapsed, tuple(remaining))

    async def _one(self, arrival: Arrival, text: str, begun: float) -> Served:
        from agentrt import Priority

        await asyncio.sleep(begun + arrival.at_s - time.perf_counter())
        late = time.perf_counter() - begun - arrival.at_s
        made = await self._runtime.agenerate(
            [{"role": "user", "content": text}],
            max_tokens=arrival.answer_tokens,
            ignore_eos=True,
            priority=Priority.REACTIVE if arrival.reactive else Priority.PROACTIVE,
        )
        timing = made.timing
        return Served(
            arrival,
            made.usage.prompt_tokens,
            late + timing.time_to_first_token_s,
            late + timing.total_s,
            late + timing.queued_s,
        )


class _OpenVINOGenAI:
    def __init__(self, model: BenchModel) -> None:
        import openvino_genai

        self._genai = openvino_genai
        batching = continuous_batching(_CACHE_GB)
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(str(model.path), batching, "CPU")
        self._tokenizer = self._pipeline.get_tokenizer()
        self._texts = Texts(model, lambda text: count_tokens(self._tokenizer, text))

    def context_length(self) -> int:
        return 2**20

    def serve(self, arrivals: Sequence[Arrival]) -> Run:
        prompts = [
            self._tokenizer.encode(
                self._tokenizer.apply_chat_template(
                    [{"role": "user", "content": self._texts.take(arrival.prompt_tokens)}],
                    add_generation_prompt=True,
                ),
                add_special_tokens=False,
            ).input_ids
            for arrival in arrivals
        ]
        coming = sorted(range(len(arrivals)), key=lambda index: arrivals[index].at_s)
        handles: dict[int, Any] = {}
        first: dict[int, float] = {}
        served: dict[int, Served] = {}
        begun = time.perf_counter()
        while len(served) < len(arrivals):
            now = time.perf_counter() - begun
            while coming and arrivals[coming[0]].at_s <= now:
                index = coming.pop(0)
                # The handle must be kept: dropping it cancels the request.
                handles[index] = self._pipeline.add_request(
                    index, prompts[index], self._config(arrivals[index])
                )
            if not handles:
                time.sleep(max(0.0, arrivals[coming[0]].at_s - now))
                continue
            self._pipeline.step()
            now = time.perf_counter() - begun
            for index, handle in list(handles.items()):
                while handle.can_read():
                    handle.read()
                    first.setdefault(index, now)
                if handle.get_status() == self._genai.GenerationStatus.FINISHED:
                    arrival = arrivals[index]
                    tokens = prompts[index].shape[1]
                    served[index] = Served(arrival, tokens, first[index] - arrival.at_s, now - arrival.at_s)
                    del handles[index]
        return Run(tuple(served[index] for index in range(len(arrivals))), time.perf_counter() - begun)

    def _config(self, arrival: Arrival) -> Any:
        config = self._genai.GenerationConfig()
        config.max_new_tokens = arrival.answer_tokens
        config.min_new_tokens = arrival.answer_tokens
        config.ignore_eos = True
        config.do_sample = False
        return config


def describe_precision(name: SideName, model: Path) -> str:
    """Return precision and threads of a side with ``model``: OpenVINO's defaults but for agentrt's groups."""
    from agentrt.runtime.model.dynamic_quantization import quantization_properties
    from agentrt.runtime.model.openvino_core import openvino_core

    core = openvino_core()
    compute, cache = (
        core.get_property("CPU", each).get_type_name()
        for each in ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION")
    )
    group = core.get_property("CPU", _GROUP_SIZE)
    if name == "agentrt":
        graph = core.read_model(str(model / "openvino_model.xml"))
        group = quantization_properties([graph], "CPU", {}).get(_GROUP_SIZE, group)
    return f"{compute}, {cache} KV, groups of {group}, {describe_machine().usable_cores} threads"


class Side(SideProcess):
    """One side in its own process."""

    def __init__(self, name: SideName, model: BenchModel) -> None:
        """Start the process and load the model; returns when it is ready."""
        super().__init__(_AgentRT if name == "agentrt" else _OpenVINOGenAI, model)
        self.context_length = int(self.call("context_length"))
        """Tokens that prompt and answer may have together."""
        self.computes: Final = describe_precision(name, model.path)
        """Its precision and threads."""

    def serve(self, arrivals: Sequence[Arrival]) -> Run:
        """Send each request at its arrival time and wait for the last answer."""
        run = self.call("serve", tuple(arrivals))
        assert isinstance(run, Run)
        return run


@contextmanager
def open_sides(model: BenchModel) -> Iterator[dict[str, Side]]:
    """Yield both sides by name, each with ``model``."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(Side(name, model)) for name in get_args(SideName)}
