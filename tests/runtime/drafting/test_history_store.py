"""Answers on disk: bounded, per app and tokenizer, private, atomic; nothing damaged is ever loaded."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.drafting import history_store
from agentrt.runtime.drafting.history_store import HistoryStore
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
def test_no_damaged_file_is_loaded_or_deleted(answer: list[int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = store_in(Path(folder))
        store.add("notes", ended(answer))
        file = store.file_of("notes")
        content = file.read_bytes()
        place = data.draw(st.integers(0, len(content) - 1))
        damaged = data.draw(
            st.sampled_from(
                [
                    content[:place],
                    content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
                    content + b"\0" * (place + 1),
                ]
            )
        )
        file.write_bytes(damaged)
        assert loaded(store, "notes") == []
        assert [each.read_bytes() for each in refused(Path(folder))] == [damaged]
        store.add("notes", ended([7]))
        assert loaded(store, "notes") == ended([7])


def test_a_refused_file_is_named_and_replaces_no_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path)
    for content in (b"first", b"second"):
        store.add("notes", ended([1]))
        store.file_of("notes").write_bytes(content)
        store.add("notes", ended([2]))  # adding, too, refuses what is there
        assert loaded(store, "notes") == ended([2])
    assert [file.read_bytes() for file in refused(tmp_path)] == [b"first", b"second"]
    assert str(refused(tmp_path)[0]) in caplog.messages[0]
    assert "is damaged" in caplog.messages[0]


def test_another_tokenizer_has_its_own_answers(tmp_path: Path) -> None:
    store_in(tmp_path).add("notes", ended([1, 2]))
    other = store_in(tmp_path, b"another tokenizer")
    assert loaded(other, "notes") == []
    other.add("notes", ended([3]))
    assert loaded(store_in(tmp_path), "notes") == ended([1, 2])
    assert not refused(tmp_path)


def test_a_file_of_another_tokenizer_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, other = store_in(tmp_path), store_in(tmp_path, b"another tokenizer")
    store.add("notes", ended([1, 2]))
    other.add("notes", ended([3]))
    content = other.file_of("notes").read_bytes()
    other.file_of("notes").replace(store.file_of("notes"))
    assert loaded(store, "notes") == []
    assert "of another tokenizer" in caplog.text
    assert [file.read_bytes() for file in refused(tmp_path)] == [content]


def test_a_file_of_another_app_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([1, 2]))
    store.file_of("notes").replace(store.file_of("mail"))
    assert loaded(store, "mail") == []
    assert "another app" in caplog.text


def test_what_another_app_stores_changes_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([1, 2]))
    content = store.file_of("notes").read_bytes()
    store.add("mail", ended([1, 3]))
    assert store.file_of("notes").read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_the_user_can_read_the_files(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        store = store_in(tmp_path)
        store.add("notes", ended([1, 2]))
        store.add("notes", ended([3]))
    finally:
        os.umask(previous)
    file = store.file_of("notes")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (file.parent, file.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for each in file.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


def test_a_long_answer_keeps_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "MAX_TOKENS", 4)
    store = store_in(tmp_path)
    store.add("notes", ended(range(9)))
    assert loaded(store, "notes") == ended([6, 7, 8])


def test_a_file_is_no_larger_than_its_bound(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for _ in range(3):
        store.add("notes", ended(range(60_000)))
    assert store.file_of("notes").stat().st_size <= 512 * 2**10 + 128
    assert loaded(store, "notes") == ended(range(60_000), range(60_000))


def test_the_apps_saved_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "MAX_APPS", 3)
    store = store_in(tmp_path)
    for moment, app in enumerate(["a", "b", "c", "a", "d"]):
        store.add(app, ended([1]))
        os.utime(store.file_of(app), (moment, moment))
    store.add("e", ended([1]))
    assert [bool(loaded(store, app)) for app in "abcde"] == [True, False, False, True, True]


def test_nothing_is_written_before_the_first_answer(tmp_path: Path) -> None:
    assert loaded(store_in(tmp_path), "notes") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_keeps_the_earlier_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([1, 2]))
    before = sorted(tmp_path.rglob("*"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "write":
        monkeypatch.setattr(HistoryStore, "_header", full)
    else:
        monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        store.add("notes", ended([3]))
    monkeypatch.undo()
    assert loaded(store, "notes") == ended([1, 2])
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([1]))
    store.file_of("notes").with_suffix(".unfinished").write_bytes(b"half")
    store.add("notes", ended([2]))
    assert loaded(store, "notes") == ended([1], [2])
    assert not list(tmp_path.rglob("*.unfinished"))


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_what_is_no_file_is_set_aside(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([1, 2]))
    store.file_of("notes").unlink()
    make(store.file_of("notes"))
    store.add("notes", ended([3, 4]))
    assert loaded(store, "notes") == ended([3, 4])
    assert len(refused(tmp_path)) == 1
    assert "where the file should be" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_pipe_where_a_file_is_to_be_written_is_an_error(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.add("notes", ended([1]))
    unfinished = store.file_of("notes").with_suffix(".unfinished")
    os.mkfifo(unfinished)
    with pytest.raises(OSError, match=f"{unfinished} is no regular file"):
        store.add("notes", ended([2]))
    assert unfinished.is_fifo()
    assert loaded(store, "notes") == ended([1])


def test_two_stores_of_one_folder_keep_the_answers_of_both(tmp_path: Path) -> None:
    first, second = store_in(tmp_path), store_in(tmp_path)
    first.add("notes", ended([1]))
    second.add("notes", ended([2]))
    first.add("notes", ended([3]))
    assert loaded(second, "notes") == ended([1], [2], [3])
