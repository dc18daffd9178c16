"""The config file: where it is, who may write it, and on which line a value stands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrt.cli.config_file import ConfigFile, config_path, tokens_path
from agentrt.errors import ConfigurationError

KNOWN = ("chat", "gateway", "serve")


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o600)
    return path


def read(folder: Path, text: str | bytes) -> ConfigFile:
    file = ConfigFile.read(written(folder, text))
    assert file is not None
    return file


def test_it_lies_in_the_users_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / name)
    assert config_path() == tmp_path / "agentrt" / "config.toml"
    assert tokens_path() == tmp_path / "agentrt" / "tokens"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("\n[server]\nport = 1\n", 2, r"\[serve\]\. Did you mean serve\?"),
        ("# settings\nport = 8000\n", 2, "'port' is none of the tables"),
        ("serve = 1\n", 1, "is a value"),
    ],
)
def test_what_is_no_table_of_a_command_is_named(tmp_path: Path, text: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        read(tmp_path, text).table("serve", KNOWN)
    assert str(raised.value).startswith(f"{tmp_path / 'config.toml'}, line {line}: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[serve]\nport = 1\n", 2),
        ("[serve]\r\n\r\nport = 1\r\n", 3),
        ("[chat]\nport = 1\n[serve]\n# port = 1\n'port' = 2\n", 5),
        ('[serve]\nmodel = [\n  "a",\n]\nport = [\n 1,\n 2,\n]\n', 5),
        ('[serve]\nhost = """\nport = 3\n"""\nport = 1\n', 5),
        ("\nserve.port = 1", 2),
        ("serve = {port = 1}", 1),
    ],
)
def test_the_line_of_a_key(tmp_path: Path, text: str, line: int) -> None:
    error = read(tmp_path, text).error(["serve", "port"], "it is wrong")
    assert str(error).removeprefix(f"{tmp_path / 'config.toml'}") == f", line {line}: it is wrong."


@pytest.mark.parametrize(
    "text",
    [
        b"[serve\n",
        b"[serve]\nport = \n",
        b"\xff",
        b"[chat]\na = 1\na = 2\n",
        b"a = " + b"[" * 5000 + b"]" * 5000,
        b"a = " + b"{a = " * 5000 + b"1" + b"}" * 5000,
        b"a = 1" + b"0" * 5000,
    ],
)
def test_a_file_that_is_not_toml_is_an_error(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be (read|used)") as raised:
        read(tmp_path, text)
    assert "sys." not in str(raised.value)


@pytest.mark.skipif(os.name != "posix", reason="the system has no modes")
def test_a_file_that_others_may_change_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "[serve]\nno-auth = true\n")
    path.chmod(0o644)
    assert ConfigFile.read(path)
    path.chmod(0o620)
    with pytest.raises(ConfigurationError, match=f"chmod go-w {path}"):
        ConfigFile.read(path)
