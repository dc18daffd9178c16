"""Decoding on an XPU of static shapes, emulated: the same tokens, whatever graphs are loaded meanwhile."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openvino as ov
import pytest

from agentrt.errors import GraphLoadError
from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.drafting.drafter_selector import AppDrafterSelector
from agentrt.runtime.heg.kernel import GraphLoad, Role, StaticGraph
from agentrt.runtime.scheduler.batch import Branch
from agentrt.runtime.scheduler.block_manager import BlockManager
from agentrt.runtime.xpu.graph_loader import GraphStore
from tests.patience import until
from tests.runtime.conftest import OpenRuntime

PROMPTS = [[{"role": "user", "content": f"{'note ' * (40 * n)}{n}"}] for n in range(1, 7)]
ANSWER = {"max_tokens": 48, "ignore_eos": True}


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profiles")


@pytest.fixture
def open_npu(open_runtime: OpenRuntime, profiles: Path) -> OpenRuntime:
    """Open nano with an emulated NPU that decodes, unquantised, because its batches are padded."""

    def open_one(**settings: Any) -> LocalRuntime:
        return open_runtime(
            platform="emulated",
            profile_folder=profiles,
            dynamic_quantization_group_size=0,
            **{"npu_decoding": True} | settings,
        )

    return open_one


def tokens(runtime: LocalRuntime, prompt: list[dict[str, Any]], **options: Any) -> tuple[int, ...]:
    return runtime.generate(prompt, **ANSWER | options).token_ids


@pytest.fixture
def alone(open_npu: OpenRuntime) -> list[tuple[int, ...]]:
    runtime = open_npu(npu_decoding=False)
    return [tokens(runtime, prompt) for prompt in PROMPTS]


def generate_until(runtime: LocalRuntime, reached: Callable[[], bool]) -> None:
    """Generate until graphs have been loaded: how many answers that takes depends on the machine."""

    def generated() -> bool:
        if reached():
            return True
        tokens(runtime, PROMPTS[0], max_tokens=200)
        until(lambda: has_prompt_graphs(runtime))  # which are loaded again while the engine is idle
        return False

    until(generated)


def has_prompt_graphs(runtime: LocalRuntime) -> bool:
    """Return whether all op groups have their graph for prompt chunks, but for those whose load failed."""
    switcher = runtime._scheduler.switcher
    failed = {load.kernel for load in switcher._failed}
    groups = zip(switcher._kernels, switcher._graphs, strict=True)
    return all(graph is StaticGraph.PREFILL or kernel in failed for kernel, graph in groups)


def groups_of(runtime: LocalRuntime) -> int:
    return len(runtime._scheduler._graph.token_kernels)


@pytest.mark.check
def test_tokens_are_the_same_and_the_npu_decodes(open_npu: OpenRuntime, alone: list[tuple[int, ...]]) -> None:
    runtime = open_npu()
    with runtime.record_trace() as trace:
        assert [tokens(runtime, prompt) for prompt in PROMPTS] == alone
        generate_until(
            runtime,
            lambda: any(k.role is Role.PREFILL and k.stage == "decode" for k in trace.kernels),
        )
        assert [tokens(runtime, prompt) for prompt in PROMPTS] == alone
    assert runtime.statistics().engine.graph_loads >= groups_of(runtime)


@pytest.mark.check
def test_it_drafts_from_logits_and_verifies_branches(
    open_npu: OpenRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All drafts that are verified on the emulated NPU leave the tokens as they are, in float32."""
    texts = (
        "the roof garden is open until noon",
        "noon is when the garden of the roof opens",
        "open the roof",
    )
    prompts = [[{"role": "user", "content": f"Repeat: {text}. {PROMPTS[2][0]['content']}"}] for text in texts]
    plain = open_npu(npu_decoding=False)
    expected = [tokens(plain, prompt) for prompt in prompts]
    monkeypatch.setattr("agentrt.runtime.drafting.retrieval._MOST_TOKENS", 3)  # so that there is room
    branches: list[Branch | None] = []
    branch = BlockManager.branch
    monkeypatch.setattr(
        BlockManager, "branch", lambda *arguments: branches.append(branch(*arguments)) or branches[-1]
    )
    drafting = open_npu()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda prompt: tokens(drafting, prompt, app="one"), prompts)) == expected
    numbers = itertools.count()

    def branched() -> bool:
        prompt = [{"role": "user", "content": f"{next(numbers)}. {prompts[0][0]['content']}"}]
        tokens(drafting, prompt, app=prompt[0]["content"], max_tokens=200, temperature=1.5, seed=1)
        until(lambda: has_prompt_graphs(drafting))
        return any(branches)

    until(branched)
    assert [tokens(drafting, prompt, app="one") for prompt in prompts] == expected
    selector = drafting.drafter_selector
    assert isinstance(selector, AppDrafterSelector)
    assert selector.histories is not None
    history = next(each for each in selector.histories._apps.values() if len(each.calibrated.index) > 300)
    assert len(history.calibrated.index) > sum(len(prompt[0]["content"].split()) for prompt in prompts) / 2
    assert drafting.statistics().engine.accepted_tokens > 0


@pytest.mark.check
def test_tokens_are_the_same_with_preemptions_and_cancellations(
    open_npu: OpenRuntime, alone: list[tuple[int, ...]]
) -> None:
    runtime = open_npu(quantum_s=1e-6, promote_after_s=0.2)

    def run(index: int) -> tuple[int, ...]:
        priority = Priority.REACTIVE if index % 3 == 0 else Priority.PROACTIVE
        return tokens(runtime, PROMPTS[index % len(PROMPTS)], priority=priority)

    def cancel(index: int) -> None:
        stream = runtime.iter_stream(PROMPTS[index % len(PROMPTS)], **ANSWER)  # type: ignore[arg-type]
        next(iter(stream))
        stream.close()  # type: ignore[attr-defined]

    with ThreadPoolExecutor(6) as pool:
        kept = []
        for index in range(12):
            pool.submit(cancel, index)
            kept.append(pool.submit(run, index))
        assert [future.result() for future in kept] == alone + alone
    assert runtime.statistics().engine.failed == 0


@pytest.mark.check
@pytest.mark.parametrize("graph", StaticGraph)
def test_a_load_that_fails_is_logged_and_the_model_goes_on(
    open_npu: OpenRuntime,
    alone: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    graph: StaticGraph,
) -> None:
    runtime = open_npu()
    read = GraphStore.read

    def fail(store: GraphStore, load: GraphLoad) -> ov.CompiledModel:
        if load.group == 2 and load.graph is graph:
            raise GraphLoadError(load.group, "the disk is gone.")
        return read(store, load)

    monkeypatch.setattr(GraphStore, "read", fail)
    with caplog.at_level(logging.WARNING):
        generate_until(runtime, lambda: "the disk is gone" in caplog.text)
    assert [tokens(runtime, prompt) for prompt in PROMPTS] == alone
    assert caplog.text.count("the disk is gone") == 1


def test_a_platform_without_static_shapes_ignores_it(open_runtime: OpenRuntime) -> None:
    runtime = open_runtime(npu_decoding=True)
    assert runtime._scheduler.next_graph_load() is None
    assert not runtime._scheduler.switcher.has_two_graphs
    assert len(tokens(runtime, PROMPTS[0], max_tokens=2)) == 2
