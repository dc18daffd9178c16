"""The arithmetic of the figures, reads from the device, and slower disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrt.bench.context.disk import SlowDisk, drop_page_cache, fast_folder, read_speed
from agentrt.bench.context.main import restart_figures
from agentrt.bench.context.replay import Switch, switch_seconds
from agentrt.bench.context.restart import Restart
from agentrt.bench.context.storage import percent_slower
from agentrt.bench.context.sweeps import Replayed, active_contexts, switch_figures
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role


def replayed(side: str, contexts: int, *ms: float, pattern: str = "random") -> Replayed:
    return Replayed(side, pattern, contexts, tuple(Switch(100, each / 1e3, 1.0, 96) for each in ms))


def test_ratios_compare_the_means_over_all_switches() -> None:
    figures = switch_figures(
        [
            replayed("ours", 4, 1, 3),
            replayed("VLLM-SQ", 4, 8, 8),
            replayed("LMK", 4, 100, 300),  # the only trace of this side
            replayed("ours", 8, 20, 20),
            replayed("VLLM-SQ", 8, 40, 40),
            replayed("ours", 8, 10, pattern="markov"),
            replayed("VLLM-SQ", 8, 60, pattern="markov"),
        ]
    )
    assert figures["switch_latency_ratio_vs_vllm_sq_mean"] == pytest.approx((16 + 80 + 60) / (4 + 40 + 10))
    assert figures["switch_latency_ratio_vs_lmk_mean"] == pytest.approx(100)
    assert "switch_latency_ratio_vs_swapping_mean" not in figures
    assert figures["switch_p95_ms"] == pytest.approx(20)
    # VLLM-SQ crosses 25 ms between 4 contexts (8 ms) and 8 (40 ms).
    assert figures["active_contexts_ratio_at_25ms"] == pytest.approx(8 / (4 + 4 * 17 / 32))
    assert switch_figures([]) == {}


@pytest.mark.parametrize(
    ("means_ms", "active"),
    [({2: 1.0, 4: 5.0}, 4), ({2: 30.0, 4: 50.0}, 0), ({2: 5.0, 4: 45.0}, 3), ({2: 5.0, 4: 45.0, 8: 1.0}, 3)],
)
def test_active_contexts_end_where_the_limit_is_crossed(means_ms: dict[int, float], active: float) -> None:
    assert active_contexts({contexts: ms / 1e3 for contexts, ms in means_ms.items()}) == pytest.approx(active)


def test_medians_are_compared() -> None:
    restarts = [
        Restart(1000, [1.0, 2.0, 1.0], [40.0, 30.0, 50.0], [2.0, 2.0, 9.0]),
        Restart(8000, [2.0], [400.0], [3.0]),
    ]
    assert restart_figures(restarts) == {
        "restart_ttft_ratio_vs_recompute_1k": 40.0,
        "restart_ttft_ratio_vs_recompute_8k": 200.0,
        "restart_ttft_ratio_vs_llama_cpp_restore": 1.5,
    }
    assert percent_slower([1.1, 1.2, 9.0], [1.0, 1.0, 1.0]) == pytest.approx(20.0)


def kernel(batch: int, started: float, ended: float, tokens: int) -> TracedKernel:
    return TracedKernel(Role.PREFILL, started, ended, batch, 0, 1, "layers", "prefill", True, ("a",), tokens)


KERNELS = [
    kernel(1, 10.0, 11.0, 64),
    kernel(1, 11.0, 12.0, 64),
    kernel(2, 13.0, 17.0, 40),
    kernel(3, 17.0, 18.0, 1),
]


@pytest.mark.parametrize(
    ("kernels", "lost", "seconds"),
    [
        pytest.param(KERNELS, 0, 0.5, id="ready when the first kernel begins"),
        pytest.param(KERNELS, 32, 1.5, id="half of the first batch is computed again"),
        pytest.param(KERNELS, 64 + 10, 13 + 4 * 10 / 40 - 9.5, id="and a part of the second"),
        pytest.param(KERNELS, 64, 3.5, id="between two batches it waits for loads"),
        pytest.param(KERNELS[:2], 64, 2.5, id="nothing but known tokens"),
        pytest.param([], 0, 0.0, id="no kernel"),
    ],
)
def test_a_switch_ends_where_the_first_new_token_could_be_computed(
    kernels: list[TracedKernel], lost: int, seconds: float
) -> None:
    assert switch_seconds(kernels, 9.5, lost) == pytest.approx(seconds)


def test_pages_of_all_files_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    for name in ("a", "model/b"):
        (tmp_path / name).write_bytes(bytes(5000))
    if not hasattr(os, "posix_fadvise"):
        assert not drop_page_cache(tmp_path)
        return
    dropped: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: dropped.append(arguments[-1]))
    assert drop_page_cache(tmp_path)
    assert dropped == [os.POSIX_FADV_DONTNEED] * 2


def test_a_file_may_be_renamed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new.unfinished").write_bytes(b"a")
    is_file = Path.is_file

    def renamed_behind(path: Path) -> bool:
        found = is_file(path)
        if found:
            path.rename(path.with_suffix(""))
        return found

    monkeypatch.setattr(Path, "is_file", renamed_behind)
    drop_page_cache(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "new").is_file()


def test_a_speed_needs_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(bytes(1000))
    assert read_speed(tmp_path) is None
    (tmp_path / "large").write_bytes(bytes(3 * 2**20))
    speed = read_speed(tmp_path)
    assert speed is not None
    assert speed > 0


def test_a_slow_disk_takes_as_long_as_its_bytes(tmp_path: Path) -> None:
    slept: list[float] = []
    slow, file = SlowDisk(1000.0, clock=lambda: 5.0, sleep=slept.append), tmp_path / "file"
    slow.write(file, bytes(500))
    assert slow.read(file, (0, 250)) == bytes(250)
    assert slow.read(file, (250, 600), (0, 600)) == bytes(250)
    assert slept == pytest.approx([0.5, 0.25, 0.25])


def test_a_fast_folder_is_empty_and_goes() -> None:
    with fast_folder() as folder:
        assert list(folder.iterdir()) == []
        (folder / "file").write_bytes(b"a")
    assert not folder.exists()
