"""What was told of the user's data, from one chat to the next."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from agentrt.cli.chat.known_news import KnownNews


def test_it_is_kept_for_each_set_of_data_and_only_the_user_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "known.json"
    mail, notes = tmp_path / "Mail", tmp_path / "notes"
    assert KnownNews([mail], path).load() is None
    KnownNews([mail], path).save(["a", "b"])
    KnownNews([mail, notes], path).save([])
    assert KnownNews([mail], path).load() == ["a", "b"]
    assert KnownNews([notes, mail / ".." / "Mail"], path).load() == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(tmp_path) not in path.read_text()


def test_it_has_the_data_that_was_used_last(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    sets = [KnownNews([tmp_path / name], path) for name in "abcde"]
    for each in (*sets[:2], sets[0], *sets[2:]):
        each.save(["told"])
    assert [each.load() for each in sets] == [["told"], None, ["told"], ["told"], ["told"]]


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": [1]}', "[[[", "null"])
def test_a_damaged_file_is_named_and_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = tmp_path / "known.json"
    path.write_text(text)
    path.chmod(0o600)
    known = KnownNews([tmp_path], path)
    with caplog.at_level(logging.WARNING):
        assert known.load() is None
    assert f"{path} is damaged" in caplog.text
    known.save(["told"])
    assert known.load() == ["told"]


def test_where_it_cannot_be_written_it_is_told_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    known = KnownNews([tmp_path], tmp_path / "file" / "known.json")
    with caplog.at_level(logging.WARNING):
        known.save(["told"])
    assert known.load() is None
    assert "what is new will be told again" in caplog.text
