from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.runtime import LocalRuntime, OpeningStep, RuntimeConfig
from agentrt.runtime.gguf import cache

pytestmark = pytest.mark.real_model


def test_each_step_of_opening_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "default_cache_folder", lambda: tmp_path / "models")
    file = tmp_path / "model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024))
    config = RuntimeConfig(threads=1, profile_folder=tmp_path / "profiles", prefill_chunk_tokens=64)
    steps: list[OpeningStep] = []
    LocalRuntime.open(file, config, on_step=steps.append).close()
    names = [step.name.partition(":")[0] for step in steps]
    assert list(dict.fromkeys(names)) == ["converting", "measuring", "loading"]
    assert steps[names.index("measuring") - 1].share == 1.0
    assert len(set(steps)) > 5
    steps.clear()
    LocalRuntime.open(file, config, on_step=steps.append).close()
    assert steps == [OpeningStep("loading")]


def test_ctrl_c_while_converting_reaches_the_caller_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "default_cache_folder", lambda: tmp_path / "models")
    file = tmp_path / "model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024))

    def interrupt(step: OpeningStep) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalRuntime.open(file, on_step=interrupt)
    assert [entry.name[:5] for entry in (tmp_path / "models").iterdir()] == [".lock"]
