"""The arithmetic of the figures, reads from the device, and slower disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrt.bench.context.disk import SlowDisk, drop_page_cache, fast_folder, read_speed
from agentrt.bench.context.replay import Switch, switch_seconds
from agentrt.bench.context.restart import (
    COMPUTED,
    LLAMA_CPP,
    LLAMA_CPP_8_BITS,
    RESTORED,
    FirstToken,
    Restart,
    restart_figures,
)
from agentrt.bench.context.storage import percent_slower
from agentrt.bench.context.sweeps import (
    Replayed,
    Traces,
    TraceSize,
    active_contexts,
    slow_disk_figures,
    slow_disk_table,
    switch_figures,
)
from agentrt.bench.context.traces import TaskTexts
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role


def replayed(side: str, contexts: int, *ms: float, pattern: str = "random") -> Replayed:
    switches = tuple(Switch(place, 100, each / 1e3, 1.0, 96) for place, each in enumerate(ms))
    return Replayed(side, pattern, contexts, switches)


def test_ratios_compare_the_means_over_all_switches_of_both_sides() -> None:
    figures = switch_figures(
        [
            replayed("ours", 4, 1, 3),
            replayed("VLLM-SQ", 4, 8, 8),
            replayed("LMK", 4, 100, 300),  # the only trace of this side
            replayed("ours", 8, 10, *[20] * 19, pattern="markov"),
            replayed("VLLM-SQ", 8, 60, pattern="markov"),
        ]
    )
    against = figures["switch_latency_ratio_vs_vllm_sq_mean"]
    assert against.value == pytest.approx((16 + 60) / (4 + 10))
    assert against.samples == 3
    assert against.has_interval
    assert figures["switch_latency_ratio_vs_lmk_mean"].value == pytest.approx(100)
    assert "switch_latency_ratio_vs_swapping_mean" not in figures
    assert figures["switch_p95_ms"].value == pytest.approx(20)
    assert "switch_p95_ms" not in switch_figures([replayed("ours", 4, *[1] * 19)]), "19 switches have no p95"
    assert switch_figures([]) == {}


@pytest.mark.parametrize(
    ("means_ms", "active"),
    [({2: 1, 4: 5}, 4), ({2: 30, 4: 50}, 0), ({2: 5, 4: 45}, 3), ({2: 5, 4: 45, 8: 1}, 3)],
)
def test_active_contexts_end_where_the_limit_is_crossed(means_ms: dict[int, float], active: float) -> None:
    assert active_contexts(means_ms.items()) == pytest.approx(active)


def test_active_contexts_are_compared_where_ours_crosses_the_limit() -> None:
    theirs = [replayed("VLLM-SQ", 4, 8, 8), replayed("VLLM-SQ", 8, 40, 40)]  # 25 ms at 4 + 4 * 17 / 32
    slower = [replayed("ours", 4, 5, 5), replayed("ours", 8, 30, 50), *theirs]
    figures = slow_disk_figures(slower)
    assert figures["active_contexts_ratio_vs_vllm_sq_at_25ms"].value == pytest.approx(
        (4 + 4 * 20 / 35) / (4 + 4 * 17 / 32)
    )
    table = slow_disk_table(slower)
    assert [row[0] for row in table.rows] == ["ours", "VLLM-SQ"]
    faster = [replayed("ours", 4, 5, 5), replayed("ours", 16, 20, 20), *theirs]
    at_least = slow_disk_figures(faster)["active_contexts_ratio_vs_vllm_sq_at_25ms"]
    assert at_least.value == pytest.approx(16 / (4 + 4 * 17 / 32)), "with the most that were tried"
    assert slow_disk_table(faster).rows[0][-1] == "over 16"
    assert slow_disk_figures([*faster[:2], *theirs[:1]]) == {}, "how many more is not known"
    in_memory = [*slower, replayed("ours, compressed in memory", 8, 40, 40)]
    assert slow_disk_table(in_memory).rows[-1][-1] is None, "of one number of contexts none is known"


def test_each_side_has_twice_as_many_contexts_until_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_ms = {"ours": 2, "VLLM-SQ": 7, "ours, compressed in memory": 1}  # for each context
    size = TraceSize((4,), 3, 512, 2.5, slow_disk=(2, 12))
    traces = Traces("nano", 100.0, lambda count: TaskTexts({}, count), size, lambda line: None)
    monkeypatch.setattr(
        traces,
        "_replay",
        lambda policy, pattern, contexts, setting: replayed(
            policy.name, contexts, *[slow_ms[policy.name] * contexts] * 2
        ),
    )
    found = traces.on_slow_disk()
    assert [(each.side, each.contexts) for each in found] == [
        *(("ours", contexts) for contexts in (2, 4, 8, 12)),
        *(("VLLM-SQ", contexts) for contexts in (2, 4)),
        ("ours, compressed in memory", 12),
    ]
    assert slow_disk_figures(found)["active_contexts_ratio_vs_vllm_sq_at_25ms"].value == pytest.approx(
        12 / (25 / 7)
    )


def test_restarts_are_compared_within_a_repetition() -> None:
    def times(*seconds: float) -> list[FirstToken]:
        return [FirstToken(each, each + 3) for each in seconds]

    short = Restart(1000, {RESTORED: times(1, 2, 1), COMPUTED: times(40, 30, 50), LLAMA_CPP: times(2, 2, 9)})
    long = Restart(8000, {RESTORED: times(2), COMPUTED: times(400), LLAMA_CPP_8_BITS: times(3)})
    found = restart_figures([short, long])
    assert {name: each.value for name, each in found.items()} == pytest.approx(
        {
            "restart_ttft_ratio_vs_recompute_1k": 40.0,
            "restart_ttft_ratio_vs_recompute_8k": 200.0,
            "restart_ttft_ratio_vs_llama_cpp_restore": 1.5,
            "restart_ttft_ratio_vs_recompute_1k_from_process_start": 43 / 4,
            "restart_ttft_ratio_vs_recompute_8k_from_process_start": 403 / 5,
            "restart_ttft_ratio_vs_llama_cpp_restore_from_process_start": 6 / 5,
        }
    )
    slower = percent_slower([1.1, 1.2, 9.0], [1.0, 1.0, 3.0])
    assert slower.value == pytest.approx(20.0)
    assert slower.has_interval


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
