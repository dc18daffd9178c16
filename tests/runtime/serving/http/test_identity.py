from __future__ import annotations

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of files")
A, B, C, D = (letter * 16 for letter in "abcd")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def written(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def refusal_of(path: Path) -> str:
    """Why a token file is not used."""
    with pytest.raises(ConfigurationError) as caught:
        Tokens.read(path)
    return str(caught.value)


def test_a_token_file_is_written_once(path: Path) -> None:
    created = Tokens.read(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().split()[-1]
    assert Tokens.read(path).app_of(f"Bearer {token}") == "default"
    assert token not in repr(ListenConfig(tokens=created))
    tokens = Tokens.read(written(path, f"# two apps\n\nnotes {A}\nnotes {B}\nmail {C}\n"))
    assert [tokens.app_of(f"{word} {B}") for word in ("bearer", "Basic")] == ["notes", None]
    assert [tokens.app_of(f"Bearer {each}") for each in (A, C, D)] == ["notes", "mail", None]
    assert (tokens.app_of(""), tokens.owner) == (None, "notes")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((text, "holds no token of an app") for text in ("", "# nothing\n", f"@metrics {A}\n")),
        *((text, "line 1: not an app's name") for text in ("token\n", "app short\n", f"app {A} more\n")),
        (f"app {'ä' * 16}\n", "line 1: not an app's name"),
        (f"mail {B}\nnotes short\n", "tokens, line 2: not an app's name"),
        (
            f"notes secret-a\nmail {B}\n# app\n\ndigest secret-b\n@notes {C}\n@mail {D}\n",
            "tokens, lines 1, 5, 6, 7: not an app's name",
        ),
        ("app short\n" * 5_000, "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 4990 more: not an app's name"),
        (f"app {A}\n" * 100_000, "more than"),
    ],
)
def test_a_token_file_with_wrong_lines(path: Path, content: str, reason: str) -> None:
    message = refusal_of(written(path, content))
    assert reason in message
    assert not any(word in message for word in ("secret", A, B, C, D))


def test_a_token_file_that_cannot_be_used(tmp_path: Path) -> None:
    binary, private, fifo = tmp_path / "binary", tmp_path / "folder", tmp_path / "fifo"
    written(binary, "").write_bytes(b"\xff\xfe")
    private.mkdir(0o700)
    os.mkfifo(fifo, 0o600)
    endless, dangling, nowhere = tmp_path / "endless", tmp_path / "dangling", tmp_path / "nowhere" / "tokens"
    endless.symlink_to("/dev/zero")
    dangling.symlink_to(nowhere)
    shared = written(tmp_path / "shared", f"app {A}\n")
    shared.chmod(0o644)
    for path, reason in {
        binary: "not UTF-8 at byte 0",
        **dict.fromkeys((private, fifo, endless), "no regular file"),
        dangling: "a link to a file that is not there",
        shared: "chmod 600",
    }.items():
        message = refusal_of(path)
        assert message.startswith(f"the token file {path} cannot be used: ")
        assert reason in message
    for path in (binary / "tokens", nowhere, tmp_path / "a\0b"):
        with pytest.raises(ConfigurationError, match=r"Not a directory|No such file|null"):
            Tokens.read(path)


def test_a_token_file_of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tokens.read(path)
    if path.stat().st_uid == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
    assert "belongs to another user" in refusal_of(path)


def test_one_token_of_two_apps(path: Path) -> None:
    same = "'notes' and 'mail' have the same token. Give each app its own"
    with pytest.raises(ConfigurationError, match=f"tokens: .*{same}") as caught:
        Tokens.read(written(path, f"notes {A}\nmail {A}\n"))
    assert A not in str(caught.value)


def test_servers_that_start_together_create_one_token_file(path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: Tokens.read(path), range(8)))
    token = path.read_text().split()[-1]
    assert {tokens.app_of(f"Bearer {token}") for tokens in found} == {"default"}
    assert os.listdir(path.parent) == ["tokens"]
