"""``agentrt config``, the config file, and the token that stays."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest
from typer.main import get_group
from typer.testing import CliRunner, Result

from agentrt.cli.command import CONFIGURED
from agentrt.cli.config_file import ConfigFile, config_path, tokens_path
from agentrt.cli.main import app
from agentrt.cli.serving import choose_tokens
from agentrt.errors import ConfigurationError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / name)
    return tmp_path / "agentrt"


def config(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["config", *arguments])
    if result.exception is not None:
        raise result.exception
    return result


def test_without_a_file_it_shows_the_defaults_and_how_to_create_one(folder: Path) -> None:
    shown = config().stdout
    assert f"{folder / 'config.toml'}: no such file. Create it: agentrt config --init" in shown
    assert "# port = 8000" in shown
    assert tomllib.loads(shown) == {name: {} for name in CONFIGURED}
    assert not folder.exists()


def test_it_shows_the_settings_of_the_file_and_is_a_file_itself(folder: Path) -> None:
    folder.mkdir()
    path = folder / "config.toml"
    path.write_text(
        '[serve]\nport = 9000\nmodel = ["nano", "b"]\ncontext-folder = "~/\\"x\\""\ndrafts = false\n'
        '[chat]\ndata = ["~", "/"]\n'
    )
    path.chmod(0o600)
    shown = config().stdout
    assert tomllib.loads(shown) == {**tomllib.loads(path.read_text()), "gateway": {}}
    assert "# memory-mib = 256" in shown


def test_init_creates_what_is_missing(folder: Path) -> None:
    shown = config("--init").stdout
    assert str(folder / "config.toml") in shown
    assert str(folder / "tokens") in shown
    for path, mode in ((folder, 0o700), (folder / "config.toml", 0o600), (folder / "tokens", 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    created = (folder / "config.toml").read_text()
    assert tomllib.loads(created) == {name: {} for name in CONFIGURED}
    every_option = created.replace("# ", "").replace(" =\n", " = ''\n")
    assert set(tomllib.loads(every_option)["gateway"]) >= {"upstream", "port", "token-file"}


def test_init_leaves_what_is_there(folder: Path) -> None:
    config("--init")
    token = (folder / "tokens").read_text()
    (folder / "config.toml").write_text("[serve]\nport = 1\n")
    again = config("--init").stdout
    for name in ("config.toml", "tokens"):
        assert f"{folder / name} is there already, and stays as it is\n" in again
    assert "created" not in again
    assert (folder / "tokens").read_text() == token
    assert (folder / "config.toml").read_text() == "[serve]\nport = 1\n"


def test_servers_accept_the_same_token_after_each_start(folder: Path) -> None:
    config("--init")
    token = (folder / "tokens").read_text().split()[-1]
    for _ in range(2):
        tokens, access = choose_tokens(None, no_auth=False, uds=None)
        assert tokens is not None
        assert tokens.app_of(f"Bearer {token}") == "default"
        assert str(access) == f"tokens: those of {folder / 'tokens'}"


def test_without_the_file_a_token_is_created_for_the_run() -> None:
    _, first = choose_tokens(None, no_auth=False, uds=None)
    _, second = choose_tokens(None, no_auth=False, uds=None)
    assert str(first).startswith("token for this run: agentrt-")
    assert str(first) != str(second)


def test_the_file_is_for_servers_that_would_otherwise_create_a_token(folder: Path) -> None:
    config("--init")
    other = folder / "other"
    assert choose_tokens(None, no_auth=True, uds=None) == (None, None)
    assert choose_tokens(None, no_auth=False, uds=folder / "socket") == (None, None)
    tokens, access = choose_tokens(other, no_auth=False, uds=None)
    assert str(access) == f"tokens: those of {other}"
    assert tokens is not None
    assert tokens.app_of(f"Bearer {other.read_text().split()[-1]}") == "default"


REFUSED = [
    *(("serve", f"port = {value}") for value in (99999, -1)),
    *(("serve", f"{key}-mib = 0") for key in ("memory", "memory-budget", "context-disk", "context-app")),
    *(("serve", f"{key} = 0") for key in ("default-max-tokens", "contexts-per-app", "max-context-tokens")),
    *(("serve", f"context-tolerance = {value}") for value in (5, 0, 0.0, -0.1)),
    *(("serve", f"context-compression = {value}") for value in (1.5, 0)),
    *(("serve", f"{key} = []") for key in ("model", "served-model-name", "cors-origin")),
    *(("serve", f"cors-origin = '{value}'") for value in ("x", "*", "http://x/y")),
    ("serve", "embedding-pooling = 'max'"),
    ("serve", "idle-unload = 0.5"),
    ("serve", "drain = -1"),
    *(("gateway", f"upstream = '{value}'") for value in ("x", "ftp://x", "http://x:99999", "http://u@x")),
    ("gateway", "redis = 'http://x'"),
    ("gateway", "upstream-timeout = 0"),
    ("chat", "max-tokens = 0"),
    ("chat", "weather-delay = 61"),
    *(("chat", f"data = {value}") for value in ("'/no/such'", "['/', '/no/such']", "['tests']")),
]


CONTRADICTIONS = [
    *(
        ("serve", f"context-{key}\nno-context-folder = true", 2)
        for key in ("disk-mib = 5", "app-mib = 5", "key = 'keyring'")
    ),
    ("serve", "no-context-folder = true\ncontext-folder = '/x'", 2),
    ("serve", "history-folder = '/x'", 2),
    ("serve", "embedding-pooling = 'cls'", 2),
    ("serve", "served-model-name = 'a=b'", 2),
    ("serve", "token-file = '/x'\nno-auth = true", 3),
    ("serve", "host = '0.0.0.0'\nno-auth = true", 1),
    ("gateway", "host = '0.0.0.0'\nno-auth = true", 1),
    ("gateway", "redis-password-file = '/x'", 2),
]


@pytest.mark.parametrize(("command", "lines", "line"), CONTRADICTIONS)
def test_it_refuses_options_that_the_command_refuses_together(
    folder: Path, command: str, lines: str, line: int
) -> None:
    folder.mkdir()
    (folder / "config.toml").write_text(f"[{command}]\n{lines}\n")
    with pytest.raises(ConfigurationError) as shown:
        config()
    assert f", line {line}: " in str(shown.value)
    assert str(shown.value).endswith(".")
    assert not str(shown.value).endswith("..")
    given = ["--upstream", "http://127.0.0.1:1"] if command == "gateway" else []
    started = CliRunner().invoke(app, [command, *given, "--port", "0"])
    assert started.exit_code != 0
    said = " ".join((started.output + str(started.exception)).replace("│", "").split())
    _, _, problem = str(shown.value).removesuffix(".").partition(": ")
    assert problem.partition(": ")[2].partition(". ")[0] in said


def test_what_goes_together_is_shown(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.toml").write_text(
        "[serve]\ncontext-folder = '/x'\ncontext-key = 'keyring'\ndrafts = false\nhistory-folder = '/y'\n"
        "host = '0.0.0.0'\n[gateway]\nredis = 'redis://x'\nredis-password-file = '/z'\nno-auth = true\n"
    )
    assert "context-key" in config().stdout


@pytest.mark.parametrize(("command", "line"), REFUSED)
def test_it_refuses_what_the_command_refuses(folder: Path, command: str, line: str) -> None:
    folder.mkdir()
    (folder / "config.toml").write_text(f"[{command}]\n{line}\n")
    with pytest.raises(ConfigurationError) as shown:
        config()
    given = ["--upstream", "http://x"] if command == "gateway" and "upstream =" not in line else []
    with pytest.raises(ConfigurationError) as started:
        get_group(app).commands[command].make_context(command, given)
    assert str(shown.value) == str(started.value)
    assert ", line 2: " in str(shown.value)
    assert str(shown.value).count(". ") >= 1
    assert "--upstream: " not in str(shown.value)  # the key names it


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
