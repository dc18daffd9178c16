import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.errors import ConfigurationError, ModelFormatError
from agentrt.runtime import LocalRuntime, OpeningStep, RuntimeConfig
from agentrt.runtime.local import assembly, texts
from agentrt.runtime.model.gguf import cache
from agentrt.runtime.model.opening import ignore_step
from agentrt.runtime.xpu.compiled import PieceCompiler

pytestmark = pytest.mark.real_model


@pytest.mark.parametrize("compiles", [False, True])
def test_each_step_of_opening_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiles: bool
) -> None:
    monkeypatch.setattr(assembly, "is_to_be_compiled", lambda: compiles)
    monkeypatch.setattr(cache, "models_folder", lambda: tmp_path / "models")
    file = tmp_path / "model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024))
    config = RuntimeConfig(threads=1, profile_folder=tmp_path / "profiles", prefill_chunk_tokens=64)
    steps: list[OpeningStep] = []
    LocalRuntime.open(file, config, on_step=steps.append).close()
    names = [step.name.partition(":")[0] for step in steps]
    assert list(dict.fromkeys(names)) == [*["compiling"] * compiles, "converting", "measuring", "loading"]
    assert steps[names.index("measuring") - 1].share == 1.0
    assert len(set(steps)) > 5
    steps.clear()
    LocalRuntime.open(file, config, on_step=steps.append).close()
    assert steps == [*[OpeningStep("compiling")] * compiles, OpeningStep("loading")]


def test_weights_that_are_to_stay_as_they_are_need_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "native_library", lambda: None)
    file = tmp_path / "model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024))
    with pytest.raises(ConfigurationError, match="Install g\\+\\+"):
        LocalRuntime.open(file, RuntimeConfig(weight_format="file"))


@pytest.mark.parametrize(
    ("settings", "stay"),
    [
        ({}, True),
        ({"weight_format": "int8"}, False),
        ({"dynamic_quantization_group_size": 0}, False),
        ({"dynamic_quantization_group_size": 0, "weight_format": "file"}, True),
        ({"platform": "emulated"}, True),
    ],
)
def test_weights_stay_as_they_are_unless_the_configuration_says_otherwise(
    settings: dict[str, Any], stay: bool
) -> None:
    assert (assembly.library_for(RuntimeConfig(**settings)) is not None) == stay


def test_ctrl_c_while_converting_reaches_the_caller_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "models_folder", lambda: tmp_path / "models")
    file = tmp_path / "model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024))

    def interrupt(step: OpeningStep) -> None:
        if step.name == "converting":  # the library may have to be compiled before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalRuntime.open(file, on_step=interrupt)
    assert [entry.name[:5] for entry in (tmp_path / "models").iterdir()] == [".lock"]


PARTS = ("warm_up", "Scheduler", "Engine", "WeightsCheck", "GrammarPreparation")


@pytest.mark.check
@pytest.mark.parametrize("place", ["measuring: CPU: decode of 8", "loading", *PARTS])
def test_an_opening_that_is_interrupted_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """At a step that is reported, or while one of the last parts is made."""
    before = set(threading.enumerate())

    def interrupt(reported: Any = None, *_: object, **__: object) -> None:
        if place in PARTS or reported.name == place:
            raise KeyboardInterrupt

    if place in PARTS:
        monkeypatch.setattr(f"agentrt.runtime.local.assembly.{place}", interrupt)
    config = RuntimeConfig(threads=1, profile_folder=tmp_path, prefill_chunk_tokens=64)
    with pytest.raises(KeyboardInterrupt):
        LocalRuntime.open("nano", config, on_step=ignore_step if place in PARTS else interrupt)
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(30)
    assert not [thread.name for thread in left if thread.is_alive()]


@pytest.mark.parametrize("damaged", ["tokenizer", "model", "both"])
def test_what_is_damaged_ends_the_opening_and_the_thread_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    """The tokenizer is loaded while the model is compiled, whose error comes first."""
    compiling = threading.Event()

    def load(*_: object, **__: object) -> None:
        assert compiling.wait(30), "the model is compiled meanwhile"
        raise ModelFormatError("the tokenizer is damaged")

    def compiles(*arguments: Any) -> Any:
        compiling.set()
        if damaged != "tokenizer":
            raise ModelFormatError("the model is damaged")
        return compile_all(*arguments)

    compile_all = PieceCompiler.compile_all
    config = RuntimeConfig(threads=1, profile_folder=tmp_path, prefill_chunk_tokens=64)
    LocalRuntime.open("nano", config).close()  # nothing is measured again
    monkeypatch.setattr(PieceCompiler, "compile_all", compiles)
    if damaged != "model":
        monkeypatch.setattr(texts, "Tokenizer", load)
    before = set(threading.enumerate())
    with pytest.raises(ModelFormatError, match=f"the {damaged.replace('both', 'model')} is damaged"):
        LocalRuntime.open("nano", config)
    assert not [thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()]


def test_grammars_are_prepared_behind_an_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = threading.Event()
    monkeypatch.setattr(texts.StructuredOutputManager, "prepare", lambda _: prepared.set())
    monkeypatch.setattr(texts, "_QUIET_S", 0)
    config = RuntimeConfig(threads=1, profile_folder=tmp_path, prefill_chunk_tokens=64)
    with LocalRuntime.open("nano", config):
        assert prepared.wait(30)
    monkeypatch.setattr(texts, "_QUIET_S", 600)
    prepared.clear()
    LocalRuntime.open("nano", config).close()
    assert not prepared.is_set(), "a closed runtime prepares nothing"
    assert "agentrt-grammars" not in {thread.name for thread in threading.enumerate()}


OPEN_AGAIN = """
import sys
from agentrt.runtime import LocalRuntime, RuntimeConfig
from pathlib import Path
config = RuntimeConfig(threads=1, profile_folder=Path(sys.argv[2]), prefill_chunk_tokens=64)
LocalRuntime.open(sys.argv[1], config).close()
print("gguf" in sys.modules)
"""


@pytest.mark.needs("c++")
def test_a_converted_file_is_opened_without_what_converts_it(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024))
    command = [sys.executable, "-c", OPEN_AGAIN, str(file), str(tmp_path / "profiles")]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    printed = [
        subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300).stdout
        for _ in range(2)
    ]
    assert printed == ["True\n", "False\n"]
