from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from agentrt.errors import EngineFailedError
from agentrt.runtime import LocalRuntime, RawPrompt, RuntimeConfig
from agentrt.runtime.heg.kernel import BatchContext, Kernel
from agentrt.runtime.nano import MODEL_DIRECTORY
from agentrt.runtime.xpu.device import OpenVINOXPU
from agentrt.runtime.xpu.machine import release_file_pages
from agentrt.runtime.xpu.protocol import KernelDone
from agentrt.runtime.xpu.warm_up import warm_up, warm_up_attention
from tests.runtime.tiny import load, tiny_model

PAGES = 64
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")


def resident(file: Path) -> int:
    """Bytes of ``file`` that this process has in memory."""
    pages, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = line.endswith(str(file))
        elif inside and line.startswith("Rss:"):
            pages += int(line.split()[1])
    return pages * 1024


@linux
def test_pages_of_a_mapped_file_are_released_and_loaded_when_read(tmp_path: Path) -> None:
    file, other = tmp_path / "weights.bin", tmp_path / "other.bin"
    content = bytes(range(256)) * (PAGES * mmap.PAGESIZE // 256)
    for each in (file, other):
        each.write_bytes(content)
    with (
        file.open("rb") as opened,
        other.open("rb") as another,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        mmap.mmap(another.fileno(), 0, access=mmap.ACCESS_READ) as kept,
    ):
        assert bytes(mapped) == bytes(kept) == content
        assert resident(file) == len(content)
        release_file_pages(file)
        assert resident(file) == 0
        assert resident(other) == len(content)
        assert bytes(mapped) == content


@pytest.mark.check
@linux
def test_a_loaded_model_keeps_few_pages_of_its_file_and_releases_those_of_embeddings() -> None:
    weights = MODEL_DIRECTORY / "openvino_model.bin"
    with LocalRuntime.open("nano", RuntimeConfig(memory_bytes=2**22)) as runtime:
        opened = resident(weights)
        assert opened < weights.stat().st_size / 4
        assert runtime.statistics().engine.kernels == 0, "no request was submitted"
        runtime.generate(RawPrompt(list(range(0, 2048, 8))), max_tokens=1)
        read = resident(weights)
        runtime._platform.reclaim(0.0)
        assert resident(weights) <= opened < read


Ran = list[tuple[str, int, BatchContext]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The kind and place of each piece that has run, and its batch."""
    ran: Ran = []
    run = OpenVINOXPU.run

    def noted(xpu: OpenVINOXPU, kernel: Kernel, context: BatchContext, timeout_s: float) -> KernelDone | None:
        ran.extend((kernel.kind.value, index, context) for index in kernel.segments)
        done = run(xpu, kernel, context, timeout_s)
        if kernel.last:
            assert context.logits is not None
            assert len(context.logits) == 1, "without a row the head has nothing to do"
        return done

    monkeypatch.setattr(OpenVINOXPU, "run", noted)
    return ran


@pytest.mark.check
@pytest.mark.parametrize("static_tokens", [None, 32])
def test_every_piece_runs_once(tiny_folder: Path, static_tokens: int | None, ran: Ran) -> None:
    directory = tiny_model(tiny_folder, "nano")
    platform = "cpu" if static_tokens is None else "emulated"
    loaded = load(directory, platform, static_tokens=static_tokens)
    warm_up(loaded.platform, loaded.graph, 64, directory.graph.with_suffix(".bin"))
    layers = loaded.graph.layers
    assert {index for kind, index, _ in ran if kind == "layers"} == set(range(layers))
    if static_tokens is not None:
        assert sum(kind == "tokens" for kind, _, _ in ran) == layers
        assert sum(kind == "attention" for kind, _, _ in ran) == layers - 1


@pytest.mark.check
@pytest.mark.parametrize(("stored", "past"), [(0, 0), (70, 64), (10**6, 8192)])
def test_attentions_are_warmed_up_for_a_long_past_in_one_block(
    tiny_folder: Path, stored: int, past: int, ran: Ran
) -> None:
    directory = tiny_model(tiny_folder, "nano")
    loaded = load(directory)
    caches = [np.asarray(cache.data).view(np.uint8) for cache in loaded.platform.caches.values()]
    before = [cache[1:].copy() for cache in caches]
    warm_up_attention(loaded.platform, loaded.graph, stored, directory.graph.with_suffix(".bin"))
    size, segments = loaded.graph.block_tokens, range(len(loaded.graph.bounds))
    shapes = [(index, context.shape.tokens, context.shape.past_tokens) for _, index, context in ran]
    assert sorted(shapes) == [(index, size, past) for index in segments]
    for cache, kept in zip(caches, before, strict=True):
        assert (cache[1:] == kept).all()


def test_a_failing_piece_fails_the_loading(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tiny_model(tiny_folder, "nano")
    loaded = load(directory)
    monkeypatch.setattr(OpenVINOXPU, "run", lambda *arguments: None)
    with pytest.raises(EngineFailedError, match="failed in its layers"):
        warm_up(loaded.platform, loaded.graph, 64, directory.graph.with_suffix(".bin"))
