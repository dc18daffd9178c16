"""Memory of an opened model, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf

pytestmark = [
    pytest.mark.check,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status"),
]

ROOT = Path(__file__).parents[2]
SHAPE = ModelShape("llama", 8, 768, 8192, 12, 4, 512)

OPEN = """
import ctypes
import sys
from pathlib import Path

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from tests.fixed_costs import fix_costs

fix_costs(pytest.MonkeyPatch())  # the same pieces however busy the machine is: each takes memory
config = RuntimeConfig(memory_bytes=2**22, platform="cpu")
with LocalRuntime.open(sys.argv[1], config):
    ctypes.CDLL(None).malloc_trim(0)  # what is freed and not given back depends on the order of threads
    lines = Path("/proc/self/status").read_text().splitlines()
    for name in ("RssAnon:", "VmHWM:"):
        print(next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name)))
"""


LENGTHS = """
import random
from pathlib import Path
from tests.runtime.tiny import Piece, forward, tiny_model, uncut


def private_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


loaded = uncut(tiny_model(Path(), "nano"))
lengths = list(range(1, 501))
random.Random(1).shuffle(lengths)
for count, length in enumerate([500, *lengths]):
    forward(loaded, Piece([5] * length))
    if count in (100, len(lengths)):
        print(private_bytes())
"""


def private_and_peak_bytes(model: Path) -> tuple[int, int]:
    """Open ``model`` three times and return the fewest bytes: those of an opening with its profile."""
    private, peak = [], []
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", OPEN, str(model)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=ROOT,
        )
        assert ended.returncode == 0, ended.stderr
        for taken, found in zip((private, peak), ended.stdout.split(), strict=True):
            taken.append(int(found))
    return min(private), min(peak)


def test_weights_and_scales_are_in_memory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "cache"))
    shapes = (SHAPE, replace(SHAPE, intermediate=512))
    memory, peaks = [], []
    for name, shape in zip(("large", "small"), shapes, strict=True):
        write_random_gguf(tmp_path / f"{name}.gguf", shape)
        private, peak = private_and_peak_bytes(tmp_path / f"{name}.gguf")
        memory.append(private)
        peaks.append(peak)
    codes = shapes[0].parameters - shapes[1].parameters
    # A code is one byte, and 32 of them share a scale in float32: 1.125, less what the smaller one has freed.
    # A second copy of the scales would make it 1.19, one of the codes 2.05.
    assert (memory[0] - memory[1]) / codes < 1.14
    # While it is opened, the file's pages come beside that, but not all of them at once.
    assert (peaks[0] - peaks[1]) / codes < 1.7


def test_memory_does_not_grow_with_the_lengths_of_prompts() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LENGTHS], capture_output=True, text=True, timeout=240, check=False, cwd=ROOT
    )
    assert ended.returncode == 0, ended.stderr
    early, late = map(int, ended.stdout.split())
    # 400 further lengths. Without bounds they take some 500 MiB, without the bounds of the caches alone 280.
    assert late - early < 100 * 2**20
