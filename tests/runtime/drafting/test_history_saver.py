"""Histories are loaded and saved in the background, and a disk that fails costs nothing but their files."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from agentrt.runtime.drafting.app_history import AppHistories, AppHistory
from agentrt.runtime.drafting.history_store import HistorySaver, HistoryStore, Tokens
from agentrt.runtime.drafting.suffix_index import SEPARATOR

NEVER_S = 3600.0
WAIT_S = 60.0


class FailingStore(HistoryStore):
    """A store whose disk is full, or cannot be read."""

    def __init__(self) -> None:
        self.attempts = 0

    def load(self, app: str) -> Tokens:
        raise self._error()

    def add(self, app: str, answers: Sequence[int]) -> None:
        raise self._error()

    def _error(self) -> OSError:
        self.attempts += 1
        return OSError(errno.ENOSPC, "No space left on device")


class SlowStore(HistoryStore):
    """A store whose disk does not respond before it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.reached = threading.Event()

    def load(self, app: str) -> Tokens:
        self.reached.set()
        assert self.released.wait(WAIT_S)
        return np.array([1, 2, SEPARATOR], np.int32)

    def add(self, app: str, answers: Sequence[int]) -> None:
        pass


def store_in(folder: Path) -> HistoryStore:
    return HistoryStore(folder, b"a tokenizer")


@contextmanager
def saver_of(store: HistoryStore, save_delay_s: float = NEVER_S) -> Iterator[HistorySaver]:
    with closing(HistorySaver(store, save_delay_s)) as saver:
        yield saver


def texts(history: AppHistory) -> list[list[int]]:
    """Return what is in each index of a history that has tokens."""
    indexes = [source.index for source in history.sources]
    return [list(index.tokens(0, len(index))) for index in indexes if len(index)]


def load(saver: HistorySaver, app: str) -> list[int]:
    """Load answers, which there must be."""
    found: list[int] = []
    done = threading.Event()

    def on_loaded(answers: Sequence[int]) -> None:
        found.extend(answers)
        done.set()

    saver.load(app, on_loaded)
    assert done.wait(WAIT_S)
    return found


def test_closing_saves_what_waits(tmp_path: Path) -> None:
    with saver_of(store_in(tmp_path)) as saver:
        saver.save("notes", [1, 2])
        saver.save("notes", [3])
        saver.save("mail", [4])
    assert store_in(tmp_path).load("notes").tolist() == [1, 2, SEPARATOR, 3, SEPARATOR]
    assert store_in(tmp_path).load("mail").tolist() == [4, SEPARATOR]
    saver.close()


def test_answers_are_saved_without_closing(tmp_path: Path) -> None:
    saved = threading.Event()

    class Store(HistoryStore):
        def add(self, app: str, answers: Sequence[int]) -> None:
            super().add(app, answers)
            saved.set()

    with saver_of(Store(tmp_path, b"a tokenizer"), save_delay_s=0) as saver:
        saver.save("notes", [1, 2])
        assert saved.wait(WAIT_S)
        assert store_in(tmp_path).load("notes").tolist() == [1, 2, SEPARATOR]


def test_a_load_finds_answers_that_were_not_saved_yet(tmp_path: Path) -> None:
    with saver_of(store_in(tmp_path)) as saver:
        saver.save("notes", [1, 2])
        assert load(saver, "notes") == [1, 2, SEPARATOR]


def test_a_full_disk_warns_once_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    with saver_of(store, save_delay_s=0) as saver:
        histories = AppHistories(saver)
        for app in ("notes", "mail"):
            history = histories.of(app.encode(), app)
            history.add([1, 2, 3])
            assert texts(history) == [[1, 2, 3, SEPARATOR]]
    assert store.attempts == 4
    assert len(caplog.messages) == 1
    assert "No space left on device" in caplog.messages[0]
    assert "history_folder" in caplog.messages[0]


def test_no_request_waits_for_the_disk() -> None:
    store = SlowStore()
    with saver_of(store) as saver:
        history = AppHistories(saver).of(b"salt", "notes")
        assert store.reached.wait(WAIT_S)
        history.add([5, 6])  # while the disk does not respond
        assert texts(history) == [[5, 6, SEPARATOR]]
        store.released.set()
    assert texts(history) == [[5, 6, SEPARATOR], [1, 2, SEPARATOR]]


def test_the_histories_of_named_apps_return(tmp_path: Path) -> None:
    with saver_of(store_in(tmp_path)) as saver:
        histories = AppHistories(saver)
        histories.of(b"salt", "notes").add([1, 2])
        histories.of(b"other salt", "mail").add([7, 8])
        histories.of(b"no name", "").add([9])
        histories.of(None, "nothing shared").add([9])
    assert len(list(tmp_path.rglob("*.sqlite"))) == 1
    with saver_of(store_in(tmp_path)) as saver:
        histories = AppHistories(saver)
        restored = {app: histories.of(f"new salt of {app}".encode(), app) for app in ("notes", "mail", "new")}
        unnamed = histories.of(b"no name", "")
    assert texts(restored["notes"]) == [[1, 2, SEPARATOR]]
    assert texts(restored["mail"]) == [[7, 8, SEPARATOR]]
    assert texts(restored["new"]) == texts(unnamed) == []


def test_restored_answers_are_dropped_when_there_are_enough_newer_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentrt.runtime.drafting.app_history._GENERATION_TOKENS", 4)
    history = AppHistory()
    history.restore([1, 2, SEPARATOR])
    history.add([3, 4, 5])
    assert texts(history) == [[3, 4, 5, SEPARATOR], [1, 2, SEPARATOR]]
    history.add([6, 7, 8])
    assert texts(history) == [[6, 7, 8, SEPARATOR]]
