"""Answers on disk: bounded, per app and tokenizer, private, atomic; nothing damaged is ever loaded.

They are loaded and saved in the background, and a disk that fails costs nothing but their files.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import HistoryStoreError
from agentrt.private_database import PrivateDatabase
from agentrt.runtime.drafting import history_store
from agentrt.runtime.drafting.app_history import AppHistories, AppHistory
from agentrt.runtime.drafting.history_store import HistorySaver, HistoryStore
from agentrt.runtime.drafting.suffix_index import SEPARATOR

TOKENIZER = b"a tokenizer"

answers = st.lists(st.integers(0, 2**31 - 1), max_size=5)


def store_in(folder: Path, tokenizer: bytes = TOKENIZER) -> HistoryStore:
    return HistoryStore(folder / "histories", tokenizer)


def loaded(store: HistoryStore, app: str) -> list[int]:
    return store.load(app).tolist()


def ended(*texts: Sequence[int]) -> list[int]:
    return [token for text in texts for token in (*text, SEPARATOR)]


def refused(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.refused-*"))


@given(st.lists(st.tuples(st.sampled_from(["notes", "mail", "Über/..", "x" * 300]), answers), max_size=12))
def test_each_app_gets_back_its_newest_answers(added: list[tuple[str, list[int]]]) -> None:
    limit = 16
    expected: dict[str, list[list[int]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_store, "MAX_TOKENS", limit)
        for app, answer in added:
            store_in(Path(folder)).add(app, ended(answer))
            expected[app].append(answer)
            while len(ended(*expected[app])) > limit:
                del expected[app][0]
        for app in ("notes", "mail", "Über/..", "x" * 300):
            assert loaded(store_in(Path(folder)), app) == ended(*expected[app])
        assert not refused(Path(folder))


@given(answers.filter(bool), st.data())
def test_no_damaged_answer_is_loaded(answer: list[int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = store_in(Path(folder))
        store.add("notes", ended(answer))
        content = store.file.read_bytes()
        place = data.draw(st.sampled_from([at for at in range(len(content)) if content[at]]))
        damaged = data.draw(
            st.sampled_from(
                [
                    content[:place],
                    content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
                    content + b"\0" * (place + 1),
                ]
            )
        )
        store.file.write_bytes(damaged)
        assert loaded(store, "notes") in ([], ended(answer))
        store.add("notes", ended([7]))
        assert loaded(store, "notes") in (ended([7]), ended(answer, [7]))
        assert [each.read_bytes() for each in refused(Path(folder))] in ([], [damaged])


@pytest.mark.parametrize("damage", ["tokens = CAST(tokens AS TEXT)", "tokens = zeroblob(0)", "checksum = 7"])
def test_a_row_with_values_of_other_types_is_damaged_or_whole(tmp_path: Path, damage: str) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([7]))
    with closing(sqlite3.connect(store.file)) as database, database:
        database.execute(f"UPDATE answer SET {damage}")
    expected = ended([7]) if "TEXT" in damage else []
    assert loaded(store, "notes") == expected
    store.add("notes", ended([8]))
    assert loaded(store, "notes") == [*expected, *ended([8])]


def test_a_header_of_a_version_that_sqlite_only_reads_is_damage(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([7]))
    content = bytearray(store.file.read_bytes())
    content[18] = 3
    store.file.write_bytes(content)
    store.add("notes", ended([8]))
    assert loaded(store, "notes") == ended([8])
    assert [file.read_bytes() for file in refused(tmp_path)] == [content]


def test_a_refused_file_is_named_and_replaces_no_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path)
    for content in (b"first" * 200, b"second" * 200):
        store.add("notes", ended([1]))
        store.file.write_bytes(content)
        store.add("notes", ended([2]))  # adding, too, refuses what is there
        assert loaded(store, "notes") == ended([2])
    assert [file.read_bytes() for file in refused(tmp_path)] == [b"first" * 200, b"second" * 200]
    assert str(refused(tmp_path)[0]) in caplog.messages[0]
    assert "are damaged" in caplog.messages[0]


def test_another_tokenizer_has_its_own_answers(tmp_path: Path) -> None:
    other = store_in(tmp_path, b"another tokenizer")
    assert loaded(other, "notes") == []
    assert list(tmp_path.iterdir()) == [], "nothing is written before the first answer"
    store_in(tmp_path).add("notes", ended([1, 2]))
    assert loaded(other, "notes") == []
    other.add("notes", ended([3]))
    assert loaded(store_in(tmp_path), "notes") == ended([1, 2])
    assert not refused(tmp_path)


@pytest.mark.parametrize("change", ["tokenizer", "app"])
def test_answers_of_another_tokenizer_or_app_are_not_used(
    tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, other = store_in(tmp_path), store_in(tmp_path, b"another tokenizer")
    store.add("notes", ended([1, 2]))
    if change == "tokenizer":
        store.file.replace(other.file)
        assert loaded(other, "notes") == []
    else:
        store.add("mail", ended([3]))
        with closing(sqlite3.connect(store.file)) as database, database:
            database.execute("UPDATE answer SET app = (SELECT app FROM answer WHERE id = 2)")
        assert loaded(store, "mail") == ended([3])
    assert "1 answers in" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        store_in(tmp_path).add("notes", ended([1, 2]))
    finally:
        os.umask(previous)
    folder = tmp_path / "histories"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()] == [0o600]


def test_a_file_is_no_larger_than_its_bound(tmp_path: Path) -> None:
    store, most = store_in(tmp_path), history_store.MAX_TOKENS
    for _ in range(5):
        store.add("notes", ended(range(60_000)))
    assert store.file.stat().st_size < 2 * 4 * most
    assert loaded(store, "notes") == ended(range(60_000), range(60_000))
    store.add("notes", ended(range(2 * most)))
    assert loaded(store, "notes") == ended(range(most + 1, 2 * most)), "a long answer keeps its end"


def test_the_apps_saved_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "MAX_APPS", 3)
    store = store_in(tmp_path)
    for app in ("a", "b", "c", "a", "d", "e"):
        store.add(app, ended([1]))
    assert [bool(loaded(store, app)) for app in "abcde"] == [True, False, False, True, True]


def test_a_full_disk_keeps_the_earlier_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([1, 2]))
    change = PrivateDatabase.change

    @contextmanager
    def full(database: PrivateDatabase, **options: bool) -> Iterator[sqlite3.Connection]:
        database.execute(f"PRAGMA max_page_count = {database.execute('PRAGMA page_count')[0][0]}")
        with change(database, **options) as connection:
            yield connection

    with monkeypatch.context() as patch:
        patch.setattr(PrivateDatabase, "change", full)
        with pytest.raises(HistoryStoreError, match="disk is full"):
            store.add("notes", ended(range(9000)))
    assert loaded(store, "notes") == ended([1, 2])
    store.add("notes", ended([3]))
    assert loaded(store, "notes") == ended([1, 2], [3])


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_what_is_no_file_is_an_error(tmp_path: Path, make: Callable[[Path], None]) -> None:
    store = store_in(tmp_path)
    store.file.parent.mkdir()
    make(store.file)
    for use in (lambda: store.add("notes", ended([3])), lambda: store.load("notes")):
        with pytest.raises(HistoryStoreError, match=f"{store.file} is no regular file"):
            use()
    assert not store.file.is_file()


NEVER_S = 3600.0
WAIT_S = 60.0


class FailingStore(HistoryStore):
    """A store whose disk is full, or cannot be read."""

    def __init__(self) -> None:
        self.attempts = 0

    def load(self, app: str, answers: Sequence[int] = ()) -> Any:
        self.attempts += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    add = load


class SlowStore(HistoryStore):
    """A store whose disk does not respond before it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.reached = threading.Event()

    def load(self, app: str) -> Any:
        self.reached.set()
        assert self.released.wait(WAIT_S)
        return np.array([1, 2, SEPARATOR], np.int32)

    def add(self, app: str, answers: Sequence[int]) -> None:
        pass


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
    with closing(HistorySaver(store_in(tmp_path), NEVER_S)) as saver:
        saver.save("notes", [1, 2])
        saver.save("notes", [3])
        saver.save("mail", [4])
    assert loaded(store_in(tmp_path), "notes") == ended([1, 2], [3])
    assert loaded(store_in(tmp_path), "mail") == ended([4])
    saver.close()


def test_answers_are_saved_without_closing(tmp_path: Path) -> None:
    saved = threading.Event()

    class Store(HistoryStore):
        def add(self, app: str, answers: Sequence[int]) -> None:
            super().add(app, answers)
            saved.set()

    with closing(HistorySaver(Store(tmp_path / "histories", TOKENIZER), 0)) as saver:
        saver.save("notes", [1, 2])
        assert saved.wait(WAIT_S)
        assert loaded(store_in(tmp_path), "notes") == ended([1, 2])


def test_a_load_finds_answers_that_were_not_saved_yet(tmp_path: Path) -> None:
    with closing(HistorySaver(store_in(tmp_path), NEVER_S)) as saver:
        saver.save("notes", [1, 2])
        assert load(saver, "notes") == [1, 2, SEPARATOR]


def test_a_full_disk_warns_once_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    with closing(HistorySaver(store, 0)) as saver:
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
    with closing(HistorySaver(store, NEVER_S)) as saver:
        history = AppHistories(saver).of(b"salt", "notes")
        assert store.reached.wait(WAIT_S)
        history.add([5, 6])  # while the disk does not respond
        assert texts(history) == [[5, 6, SEPARATOR]]
        store.released.set()
    assert texts(history) == [[5, 6, SEPARATOR], [1, 2, SEPARATOR]]


def test_the_histories_of_named_apps_return(tmp_path: Path) -> None:
    with closing(HistorySaver(store_in(tmp_path), NEVER_S)) as saver:
        histories = AppHistories(saver)
        histories.of(b"salt", "notes").add([1, 2])
        histories.of(b"other salt", "mail").add([7, 8])
        histories.of(b"no name", "").add([9])
        histories.of(None, "nothing shared").add([9])
    assert len(list(tmp_path.rglob("*.sqlite"))) == 1
    with closing(HistorySaver(store_in(tmp_path), NEVER_S)) as saver:
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
