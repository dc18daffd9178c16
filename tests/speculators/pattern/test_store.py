"""What the pattern speculator has learned is kept in one safe file."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import DraftRequest, ToolCall
from agentrt.errors import HistoryCorruptError, HistoryLockedError, HistoryStoreError
from agentrt.speculators import PatternSpeculator
from tests.hypothesis_profiles import examples
from tests.speculators.pattern.conversations import (
    TOOLS,
    Conversation,
    live_through,
    orders,
    predictions,
    tool,
)


def taught(folder: Path, conversations: int) -> Path:
    """Return the store of a predictor that was closed after so many conversations."""
    predictor = PatternSpeculator(folder / "history.sqlite")
    for number in range(conversations):
        live_through(predictor, orders(number))
    predictor.close()
    return folder / "history.sqlite"


def test_what_was_learned_outlives_the_process(tmp_path: Path) -> None:
    path = taught(tmp_path / "new", 6)
    second = PatternSpeculator(path)
    assert live_through(second, orders(77)) == [True] * 4
    second.forget()
    request = DraftRequest(orders(78).messages, TOOLS)
    knows_nothing = predictions(PatternSpeculator(), request)
    assert predictions(second, request) == knows_nothing
    second.close()
    third = PatternSpeculator(path)
    assert predictions(third, request) == knows_nothing
    third.close()


def test_the_store_is_its_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history.sqlite"
    predictor = PatternSpeculator(path)
    live_through(predictor, orders(1))
    predictor._worker.submit(lambda: None).result()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = list(path.parent.iterdir())
    assert len(files) == 3  # with the write-ahead log and its index
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    predictor.close()
    path.chmod(0o644)
    PatternSpeculator(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_store_holds_no_words_and_no_value_that_came_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    predictor = PatternSpeculator(path)
    tools = [tool("sign_in", "user", "password"), tool("look_up", "topic")]
    for _ in range(3):
        said = {"role": "user", "content": "I am daisy with the phrase hunter2, about marmalade"}
        call = ToolCall("sign_in", {"user": "daisy", "password": "hunter2"})
        predictor.learn(DraftRequest([said], tools), [call])
    said = {"role": "user", "content": "what about marmalade?"}
    predictor.learn(DraftRequest([said], tools), [ToolCall("look_up", {"topic": "marmalade"})])
    predictor.close()
    kept = path.read_bytes()
    assert b"daisy" in kept  # it came three times, and is no secret by its name
    assert not any(word in kept for word in (b"hunter2", b"marmalade", b"phrase"))


def test_files_that_are_no_history_are_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    text = tmp_path / "text.sqlite"
    text.write_text("no database " * 100)
    for path in (other, text):
        before = path.read_bytes()
        with pytest.raises(HistoryCorruptError, match=r"Name another|Move it away"):
            PatternSpeculator(path)
        assert path.read_bytes() == before
    with pytest.raises(HistoryStoreError, match="Name a file"):
        PatternSpeculator(tmp_path)
    link = tmp_path / "link.sqlite"
    link.symlink_to(other)
    with pytest.raises(HistoryStoreError, match="Name a file"):
        PatternSpeculator(link)


@examples(25)
@given(at=st.floats(0, 1), damage=st.binary(min_size=1, max_size=600))
def test_a_damaged_store_is_usable_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: float, damage: bytes
) -> None:
    path = taught(tmp_path_factory.mktemp("damaged"), 1)
    content = bytearray(path.read_bytes())
    start = int(at * len(content))
    content[start : start + len(damage)] = damage[: len(content) - start]
    path.write_bytes(content)
    try:
        again = PatternSpeculator(path)
    except HistoryStoreError:
        return
    live_through(again, orders(2))
    again.close()


@pytest.mark.slow
def test_a_locked_store_is_refused_at_the_start_and_retried_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.sqlite"
    predictor = PatternSpeculator(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    live_through(predictor, Conversation("cust_1", ["ORD1"]))
    predictor._worker.submit(lambda: None).result()
    assert caplog.messages == [
        f"the pattern speculator cannot save what it learns: {path} is held by another process. "
        "Try again, or name another file."
    ]
    other.execute("ROLLBACK")
    live_through(predictor, orders(2))
    predictor.close()
    assert other.execute("SELECT count(*) FROM places").fetchone() == (2,)
    other.close()
    fresh = tmp_path / "fresh.sqlite"
    holder = sqlite3.connect(fresh, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(HistoryLockedError, match="another process"):
        PatternSpeculator(fresh)
    holder.close()


def test_the_format_of_the_store_stays(tmp_path: Path) -> None:
    """Features are known by digests of their names: renaming one would make stored weights useless."""
    path = taught(tmp_path, 3)
    with closing(sqlite3.connect(path)) as store:
        digests = [number for (number,) in store.execute("SELECT feature FROM weights ORDER BY feature")]
        followers = [number for (number,) in store.execute("SELECT call FROM followers ORDER BY call")]
    assert (len(digests), sum(digests) % 10**9) == (407, 547315205)
    assert (len(followers), sum(followers) % 10**9) == (16, 930362847)


def test_a_store_without_places_of_arguments_is_read(tmp_path: Path) -> None:
    path = taught(tmp_path, 3)
    with closing(sqlite3.connect(path)) as store:
        rows = store.execute("SELECT tool, parameter, content FROM places").fetchall()
        assert all(len(json.loads(content)) == 5 for _, _, content in rows)
        older = [(json.dumps(json.loads(content)[:4]), tool, name) for tool, name, content in rows]
        store.executemany("UPDATE places SET content = ? WHERE tool = ? AND parameter = ?", older)
        store.commit()
    again = PatternSpeculator(path)
    assert any(live_through(again, orders(9)))
    again.close()
