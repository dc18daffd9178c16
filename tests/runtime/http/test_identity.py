from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.http.config import ListenConfig
from agentrt.runtime.http.identity import Tokens

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


@pytest.mark.parametrize("content", ["", "# nothing\n", "token\n", "app short\n", f"app {'a' * 16} more\n"])
def test_a_token_file_without_valid_lines(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(ConfigurationError):
        Tokens.read(path)


def test_a_token_file_that_cannot_be_used(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.touch(0o600)
    binary.write_bytes(b"\xff\xfe")
    private = tmp_path / "folder"
    private.mkdir(0o700)
    for path in (binary, private, binary / "tokens", tmp_path / "nowhere" / "tokens"):
        with pytest.raises(ConfigurationError, match="as a token file"):
            Tokens.read(path)


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
