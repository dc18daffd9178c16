"""A profile that is refined by the engine that serves by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.engine.cost_refinement import CostRefinement
from agentrt.runtime.heg.kernel import BatchShape, Kernel, Role
from agentrt.runtime.heg.profile import Profile
from agentrt.runtime.heg.refinement import ProfileRefiner

pytestmark = pytest.mark.real_model

MESSAGES = [{"role": "user", "content": "Hello!"}]


def stored(folder: Path) -> Profile:
    (file,) = folder.glob("[!m]*.json")
    return Profile.model_validate_json(file.read_bytes())


def slow_decode_s(profile: Profile) -> float:
    costs = profile.xpus[Role.DECODE].layers
    return costs.layer.seconds[0]


@pytest.fixture(autouse=True)
def _quick_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is observed, and took a microsecond."""
    observe = ProfileRefiner.observe

    def observe_quick(
        refiner: ProfileRefiner, role: Role, kernel: Kernel, shape: BatchShape, seconds: float
    ) -> None:
        observe(refiner, role, kernel, shape, 1e-6)

    monkeypatch.setattr(CostRefinement, "_ran_as_estimated", lambda *_: True)
    monkeypatch.setattr(ProfileRefiner, "observe", observe_quick)


@pytest.fixture
def config(tmp_path: Path) -> RuntimeConfig:
    """A configuration whose stored profile says that layers take a hundred times as long."""
    config = RuntimeConfig(threads=1, profile_folder=tmp_path, prefill_chunk_tokens=64)
    LocalRuntime.open("nano", config).close()
    (file,) = tmp_path.glob("[!m]*.json")
    document: Any = stored(tmp_path).model_dump(mode="json")
    layer = document["xpus"]["decode"]["layers"]["layer"]
    layer["seconds"] = [100 * seconds for seconds in layer["seconds"]]
    file.write_text(Profile.model_validate(document).model_dump_json())
    return config


@pytest.mark.check
def test_a_model_that_has_served_is_opened_with_a_better_profile(
    config: RuntimeConfig, tmp_path: Path
) -> None:
    before = slow_decode_s(stored(tmp_path))
    with LocalRuntime.open("nano", config) as runtime:
        runtime.generate(MESSAGES, max_tokens=12, temperature=0)
    assert slow_decode_s(stored(tmp_path)) == pytest.approx(before / 2)  # the largest step


def test_a_serving_engine_goes_on_by_refined_costs(config: RuntimeConfig) -> None:
    with LocalRuntime.open("nano", config) as runtime:
        profile = runtime._engine._costs.refiner
        wrong = slow_decode_s(profile.profile)
        runtime.generate(MESSAGES, max_tokens=120, ignore_eos=True)
        assert slow_decode_s(profile.profile) < wrong
        assert runtime._engine._scheduler._graph.cost_model is profile.profile
