"""The costs that all other tests run with."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.heg.profile import Profile
from tests.fixed_costs import fix_costs

pytestmark = pytest.mark.real_model


def served(folder: Path) -> Profile:
    """Return the profile of nano after it was measured for ``folder`` and has served."""
    config = RuntimeConfig(threads=1, profile_folder=folder, prefill_chunk_tokens=64)
    with LocalRuntime.open("nano", config) as runtime:
        runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=100, ignore_eos=True)
    (file,) = folder.glob("[!m]*.json")
    return Profile.model_validate_json(file.read_bytes())


@pytest.mark.check
def test_a_profile_is_always_the_same(tmp_path: Path) -> None:
    assert served(tmp_path / "first") == served(tmp_path / "second")


@pytest.mark.check
@pytest.mark.usefixtures("measured_costs")
def test_a_measured_profile_is_stored_apart(tmp_path: Path) -> None:
    """Other processes of the tests use the same folder, and measure."""
    measured = served(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        fix_costs(patch)
        config = RuntimeConfig(threads=1, profile_folder=tmp_path, prefill_chunk_tokens=64)
        LocalRuntime.open("nano", config).close()
    assert len(list(tmp_path.glob("[!m]*.json"))) == 2
    assert (tmp_path / f"{measured.fingerprint}.json").exists()
