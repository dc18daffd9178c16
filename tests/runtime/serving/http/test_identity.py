from __future__ import annotations

import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens, owner_token

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of files")


def test_a_token_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    Tokens.read(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().split()[-1]
    assert Tokens.read(path).app_of(f"Bearer {token}") == "default"
    path.write_text(f"# two apps\n\nnotes {'a' * 16}\nmail {'b' * 16}\n")
    tokens = Tokens.read(path)
    assert tokens.app_of(f"bearer {'b' * 16}") == "mail"
    assert tokens.app_of("Bearer " + "c" * 16) is None
    assert tokens.app_of("") is None


def test_the_owners_token_is_that_of_the_first_app(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    created = Tokens.read(path)
    assert created.app_of(f"Bearer {owner_token(path)}") == created.owner == "default", "@metrics comes first"
    path.write_text(f"@metrics {'m' * 16}\n")
    with pytest.raises(ConfigurationError, match="holds no token of an app"):
        owner_token(path)


@pytest.mark.parametrize(
    "content", ["", "# nothing\n", "token\n", "app short\n", f"app {'a' * 16} more\n", f"app {'ä' * 16}\n"]
)
def test_a_token_file_without_valid_lines(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(ConfigurationError):
        Tokens.read(path)


def test_every_wrong_line_of_a_token_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(
        f"notes secret-a\nmail {'b' * 16}\n# app\n\ndigest secret-b\n@notes {'c' * 16}\n@mail {'d' * 16}\n"
    )
    for read in (Tokens.read, owner_token):
        with pytest.raises(
            ConfigurationError, match=r"tokens, lines 1, 5: not an app's name .* lines 6, 7: no app"
        ) as caught:
            read(path)
        assert not any(word in str(caught.value) for word in ("secret", "b" * 16, "c" * 16, "d" * 16))
    path.write_text("app short\n" * 5_000)
    with pytest.raises(
        ConfigurationError, match="lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 4990 more: not an app"
    ):
        Tokens.read(path)
    path.write_text(f"mail {'b' * 16}\nnotes short\n")
    with pytest.raises(ConfigurationError, match="tokens, line 2: not an app"):
        Tokens.read(path)


def test_a_token_file_that_cannot_be_used(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.touch(0o600)
    binary.write_bytes(b"\xff\xfe")
    private = tmp_path / "folder"
    private.mkdir(0o700)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    endless = tmp_path / "endless"
    endless.symlink_to("/dev/zero")
    nowhere = tmp_path / "nowhere" / "tokens"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(nowhere)
    large = tmp_path / "large"
    large.touch(0o600)
    large.write_text(f"app {'a' * 16}\n" * 100_000)
    for path, reason in {
        binary: "not UTF-8 at byte 0",
        private: "no regular file",
        fifo: "no regular file",
        endless: "no regular file",
        dangling: "a link to a file that is not there",
        large: "more than",
    }.items():
        for read in (Tokens.read, owner_token):
            with pytest.raises(ConfigurationError, match=f"the token file {path} cannot be used: .*{reason}"):
                read(path)
    for path, reason in {
        binary / "tokens": "Not a directory",
        nowhere: "No such file",
        tmp_path / "a\0b": "null",
    }.items():
        with pytest.raises(ConfigurationError, match=f"tokens? cannot be created: .*{reason}|null"):
            Tokens.read(path)


def test_a_token_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens"
    Tokens.read(path)
    if path.stat().st_uid == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        Tokens.read(path)


def test_one_token_of_two_apps(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(f"notes {'a' * 16}\nnotes {'b' * 16}\nmail {'c' * 16}\n")
    tokens = Tokens.read(path)
    assert [tokens.app_of(f"Bearer {letter * 16}") for letter in "abc"] == ["notes", "notes", "mail"]
    assert tokens.owner == "notes"
    path.write_text(f"notes {'a' * 16}\nmail {'a' * 16}\n")
    with pytest.raises(
        ConfigurationError, match=r"tokens: .*'notes' and 'mail' have the same token"
    ) as caught:
        Tokens.read(path)
    assert "a" * 16 not in str(caught.value)
    with pytest.raises(ConfigurationError, match="Give each app its own"):
        Tokens([("notes", "t" * 20), ("mail", "t" * 20)])


def test_servers_that_start_together_create_one_token_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: Tokens.read(path), range(8)))
    token = path.read_text().split()[-1]
    assert {tokens.app_of(f"Bearer {token}") for tokens in found} == {"default"}
    assert os.listdir(tmp_path) == ["tokens"]


def test_a_token_file_that_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch()
    os.chmod(path, 0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        Tokens.read(path)


def test_a_printed_configuration_holds_no_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    tokens = Tokens.read(path)
    assert path.read_text().split()[-1] not in json.dumps(repr(ListenConfig(tokens=tokens)))
