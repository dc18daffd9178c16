"""Weights that differ from their digest: found in the background, and answered from no more."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.errors import EngineFailedError, ModelFormatError
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.files.checksums import CHECKSUMS
from agentrt.runtime.model import weights_check
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.gguf.cache import convert_gguf
from agentrt.runtime.model.gguf.file_format import read_source
from agentrt.runtime.model.weights_check import WeightsCheck
from tests.patience import until
from tests.runtime.conftest import Hold

HELLO = [{"role": "user", "content": "Hello!"}]


def flip(file: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.fixture
def copied(tmp_path: Path, nano_directory: ModelDirectory) -> Path:
    return shutil.copytree(nano_directory.path, tmp_path / "model")


def checked(directory: ModelDirectory) -> list[ModelFormatError]:
    """What a check of the weights of ``directory`` reports."""
    found: list[ModelFormatError] = []
    WeightsCheck(directory, found.append)._thread.join()
    return found


def test_a_changed_bit_is_reported_and_weights_that_are_whole_or_gone_are_not(copied: Path) -> None:
    directory = open_model_directory(copied)
    assert checked(directory) == []
    flip(copied / "openvino_model.bin")
    (error,) = checked(directory)
    assert "openvino_model.bin is damaged" in str(error)
    (copied / "openvino_model.bin").unlink()
    assert checked(directory) == []


def test_weights_without_a_digest_are_not_read(copied: Path) -> None:
    (copied / CHECKSUMS).unlink()
    check = WeightsCheck(open_model_directory(copied), pytest.fail)
    assert not check._thread.is_alive()
    check.stop()


def test_a_check_can_be_stopped(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_check, "_PIECE_BYTES", 1)
    monkeypatch.setattr(weights_check, "_REST", 10**6)
    flip(copied / "openvino_model.bin")
    check = WeightsCheck(open_model_directory(copied), pytest.fail)
    check.stop()
    assert not check._thread.is_alive()


def test_a_runtime_stops_answering_from_damaged_weights(
    copied: Path, monkeypatch: pytest.MonkeyPatch, hold: Hold
) -> None:
    go_on = threading.Event()
    digest = WeightsCheck._digest
    monkeypatch.setattr(WeightsCheck, "_digest", lambda self: go_on.wait(60) and digest(self))
    flip(copied / "openvino_model.bin")
    with LocalRuntime.open(copied, RuntimeConfig(memory_bytes=8 * 2**20)) as runtime:
        gate = hold(runtime)
        gate.allow(20)
        events = runtime.iter_stream(HELLO, ignore_eos=True, max_tokens=1500)
        next(events)
        go_on.set()
        until(lambda: runtime.closed)  # found before the answer is complete
        gate.open()
        with pytest.raises(EngineFailedError, match=r"was stopped: .*openvino_model\.bin is damaged"):
            list(events)
        with pytest.raises(EngineFailedError, match="is damaged"):
            runtime.generate(HELLO)


@pytest.mark.real_model
def test_a_damaged_conversion_is_converted_again(tmp_path: Path) -> None:
    file = tmp_path / "Tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024))
    directory = open_model_directory(file, tmp_path / "cache")
    whole = (directory.path / "openvino_model.bin").read_bytes()
    flip(directory.path / "openvino_model.bin")
    assert open_model_directory(file, tmp_path / "cache").path == directory.path  # of the same size
    (error,) = checked(directory)
    assert "Tiny.gguf is damaged" in str(error)
    assert "Open the file again" in str(error)
    again = convert_gguf(read_source(file), tmp_path / "cache")
    assert (again / "openvino_model.bin").read_bytes() == whole
