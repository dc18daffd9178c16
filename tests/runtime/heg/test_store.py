from __future__ import annotations

import threading
from pathlib import Path

import pytest

from agentrt.errors import ProfileFormatError
from agentrt.runtime.heg.profile import Profile
from agentrt.runtime.heg.store import MachineFigures, ProfileStore, fingerprint
from tests.runtime.tiny import made_up_profile

PROFILE = made_up_profile(3, groups=64)


def never() -> Profile:
    raise AssertionError("nothing should be measured")


def test_profile_is_measured_once_and_then_found(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "new" / "folder")
    assert store.profile("a", lambda: PROFILE) == PROFILE
    assert ProfileStore(store.folder).profile("a", never) == PROFILE
    figures = MachineFigures(read_bandwidth=1e10)
    assert store.stored("machine-a.json", MachineFigures, lambda: figures) == figures
    assert store.profile("a", never) == PROFILE
    other = made_up_profile(4)
    assert store.profile("b", lambda: other) == other
    store.forget("a")
    store.forget("never stored")
    assert store.profile("a", lambda: other) == other


@pytest.mark.parametrize(
    "damage",
    [
        *("", "{", "[]", '{"fingerprint": "x"}', "\0\xff"),
        *(
            PROFILE.model_copy(update={field: -1}).model_dump_json()
            for field in ("bandwidth", "layers", "block_tokens")
        ),
    ],
    ids=lambda text: text[:12],
)
def test_a_damaged_profile_is_measured_again_with_a_warning(tmp_path: Path, damage: str) -> None:
    store = ProfileStore(tmp_path)
    (tmp_path / "a.json").write_text(damage, encoding="latin-1")
    with pytest.raises(ProfileFormatError, match=r"a\.json.*Delete it"):
        store.load("a.json", Profile)
    with pytest.warns(RuntimeWarning, match="Measuring now"):
        assert store.profile("a", lambda: PROFILE) == PROFILE
    assert store.profile("a", never) == PROFILE


def test_a_profile_that_cannot_be_stored_is_still_returned(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ProfileStore(tmp_path / "file" / "folder")
    with pytest.warns(RuntimeWarning, match="profile_folder"):
        assert store.profile("a", lambda: PROFILE) == PROFILE


def test_concurrent_readers_find_a_whole_profile(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.profile("a", lambda: PROFILE)
    written = threading.Event()

    def rewrite() -> None:
        for _ in range(50):
            (tmp_path / "a.json").unlink()
            ProfileStore(tmp_path).profile("a", lambda: PROFILE)
        written.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not written.is_set():
        assert store.load("a.json", Profile) in (None, PROFILE)
    writer.join()
    assert sorted(file.name for file in tmp_path.iterdir()) == [".lock-a", "a.json"]


def test_who_wants_a_profile_that_is_being_measured_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring, waiting = threading.Event(), threading.Event()
    monkeypatch.setattr("agentrt.runtime.files.file_lock._wait", lambda: waiting.set())

    def measure() -> Profile:
        measuring.set()
        assert waiting.wait(30)
        return PROFILE

    first = threading.Thread(target=ProfileStore(tmp_path).profile, args=("a", measure))
    first.start()
    assert measuring.wait(30)
    assert ProfileStore(tmp_path).profile("a", never) == PROFILE
    first.join()


def test_after_an_interrupted_measurement_the_next_one_measures(tmp_path: Path) -> None:
    def interrupted() -> Profile:
        raise KeyboardInterrupt

    store = ProfileStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.profile("a", interrupted)
    assert store.profile("a", lambda: PROFILE) == PROFILE


def test_fingerprints_tell_facts_apart_and_not_their_order() -> None:
    assert fingerprint(a=1, b={"x": 2, "y": 3}) == fingerprint(b={"y": 3, "x": 2}, a=1)
    assert fingerprint(a=1) != fingerprint(a=2) != fingerprint(b=2)
