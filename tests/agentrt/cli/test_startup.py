from __future__ import annotations

import gc

import pytest

from agentrt.cli.startup import postponed_collections


@pytest.fixture(autouse=True)
def unfrozen() -> object:
    yield
    gc.unfreeze()
    gc.enable()


def test_collections_begin_again_once_and_leave_out_what_was_there() -> None:
    with postponed_collections() as collect:
        assert not gc.isenabled()
        stays = [object(), []]
        collect()
        assert gc.isenabled()
        frozen = gc.get_freeze_count()
        assert frozen > 0
        assert not any(each is stays for each in gc.get_objects())
        collect()
        assert gc.get_freeze_count() <= frozen  # other threads may have freed some


def test_collections_begin_again_when_a_start_fails() -> None:
    before = gc.get_freeze_count()
    with pytest.raises(KeyboardInterrupt), postponed_collections():
        raise KeyboardInterrupt
    assert gc.isenabled()
    assert gc.get_freeze_count() == before
