from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf


def test_the_same_seed_writes_the_same_file(tmp_path: Path) -> None:
    shape = ModelShape("qwen3", 2, 64, 96, 2, 1, 400)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_random_gguf(tmp_path / name, shape, seed)
    first, second, third = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second != third
    assert len(first) == len(third)


def test_the_file_is_about_a_byte_for_each_parameter(tmp_path: Path) -> None:
    shape = ModelShape("llama", 2, 256, 512, 4, 2, 2000)
    write_random_gguf(tmp_path / "model", shape)
    assert (tmp_path / "model").stat().st_size == pytest.approx(shape.parameters * 34 / 32, rel=0.05)
