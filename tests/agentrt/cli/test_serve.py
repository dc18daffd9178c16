"""What the options of ``agentrt serve`` make of the runtime's settings, and of the names of models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
import pytest
import typer
from typer.main import get_group
from typer.testing import CliRunner

from agentrt.cli.command import ConfiguredCommand
from agentrt.cli.kept_contexts import keep_contexts
from agentrt.cli.main import app
from agentrt.cli.options import names_of_models
from agentrt.errors import ContextKeyError
from agentrt.runtime import ModelPool, PoolConfig, PooledModel, RuntimeConfig
from agentrt.runtime.pool.background.conditions import BackgroundConditions
from agentrt.runtime.pool.background.config import BackgroundConfig
from agentrt.runtime.serving.server import ServerConfig
from agentrt.settings import Settings


class FoundError(Exception):
    """Ends the command when it looks for its model."""


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RuntimeConfig]:
    """Returns the settings with which the command opens its models."""
    found: list[RuntimeConfig] = []

    def find(model: str, config: RuntimeConfig, names: Any) -> PooledModel:
        found.append(config)
        raise FoundError

    monkeypatch.setattr(PooledModel, "find", find)
    monkeypatch.setattr("agentrt.cli.serve.begin_serving", lambda: None)

    def run(*options: str) -> RuntimeConfig:
        access = [] if "--uds" in options or "--token-file" in options else ["--no-auth", "--port", "0"]
        result = CliRunner().invoke(app, ["serve", *access, *options])
        if not isinstance(result.exception, FoundError):
            raise result.exception or AssertionError(result.output)
        return found.pop()

    return run


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """The settings of the sockets that commands would have opened."""
    found: list[ServerConfig] = []

    def bind(config: ServerConfig) -> None:
        found.append(config)
        raise FoundError

    monkeypatch.setattr("agentrt.runtime.serving.server.bind", bind)
    monkeypatch.setattr("agentrt.cli.serve.begin_serving", lambda: None)
    return found


def test_without_options_the_settings_are_the_runtimes_own(
    settings_of: Callable[..., RuntimeConfig],
) -> None:
    assert settings_of() == RuntimeConfig()


@pytest.mark.parametrize(
    ("option", "value", "field", "setting"),
    [
        ("--contexts-per-app", "2000", "contexts_per_app", 2000),
        ("--max-context-tokens", "4096", "max_context_tokens", 4096),
        ("--context-compression", "0.5", "context_compression", 0.5),
        ("--context-tolerance", "0.01", "context_tolerance", 0.01),
        ("--context-memory-mib", "3", "context_memory_bytes", 3 * 2**20),
        ("--context-disk-mib", "3", "context_disk_bytes", 3 * 2**20),
        ("--context-app-mib", "3", "context_app_bytes", 3 * 2**20),
        ("--context-folder", "folder", "context_folder", Path("folder")),
    ],
)
def test_settings_of_contexts(
    settings_of: Callable[..., RuntimeConfig], option: str, value: str, field: str, setting: Any
) -> None:
    expected = RuntimeConfig(**{"context_folder": "contexts", field: setting})
    assert settings_of("--context-folder", "contexts", option, value) == expected


def test_contexts_of_apps_that_have_names_are_kept_by_default(
    settings_of: Callable[..., RuntimeConfig], tmp_path: Path
) -> None:
    own = platformdirs.user_data_path("agentrt") / "contexts"
    kept = RuntimeConfig(context_folder=own, context_disk_bytes=2 * 2**30)
    of_apps = ("--token-file", str(tmp_path / "tokens"), "--port", "0")
    assert settings_of(*of_apps) == kept
    assert settings_of("--uds", str(tmp_path / "socket")) == kept
    assert settings_of(*of_apps, "--no-context-folder") == RuntimeConfig()
    assert settings_of(*of_apps, "--context-disk-mib", "5").context_disk_bytes == 5 * 2**20
    assert settings_of(*of_apps, "--context-key", "keyring").context_key == "keyring"
    assert settings_of(*of_apps, "--context-folder", "/x") == RuntimeConfig(context_folder="/x")


def test_the_command_line_replaces_where_the_config_file_keeps_contexts(
    settings_of: Callable[..., RuntimeConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "agentrt").mkdir()
    file = tmp_path / "agentrt" / "config.toml"
    file.write_text("[serve]\ncontext-folder = '/x'\ncontext-key = '/k'\ncontext-disk-mib = 3\n")
    file.chmod(0o600)
    assert settings_of("--no-context-folder") == RuntimeConfig()
    file.write_text("[serve]\nno-context-folder = true\n")
    assert settings_of("--context-folder", "/y").context_folder == Path("/y")


def test_contexts_that_cannot_be_kept_are_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def models() -> list[PooledModel]:
        return [PooledModel.find("nano", RuntimeConfig(context_folder=tmp_path, **encrypted))]

    encrypted: dict[str, Any] = {}
    first, second = models(), models()
    with ModelPool(first, open_contexts=keep_contexts), ModelPool(second, open_contexts=keep_contexts):
        said = capsys.readouterr().err
        assert said.startswith("contexts of nano are kept in memory only: the contexts in ")
        assert "are in use by another runtime" in said
        assert (first[0].context_store is None, second[0].context_store is None) == (False, True)
    encrypted["context_key"] = tmp_path / "key"
    (tmp_path / "key").write_text("0" * 64)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ContextKeyError, match="is not encrypted"):
        ModelPool(models(), open_contexts=keep_contexts)


def test_the_home_folder_is_expanded_in_every_path_of_the_command_line() -> None:
    small = typer.Typer()

    @small.command("serve", cls=ConfiguredCommand)
    def show(token_file: Path | None = None) -> None:
        print(token_file)

    printed = CliRunner().invoke(small, ["--token-file=~/tokens"]).stdout
    assert printed.strip() == str(Path.home() / "tokens")


def test_every_setting_of_contexts_has_an_option() -> None:
    command = get_group(app).commands["serve"]
    options = {option for parameter in command.params for option in parameter.opts}
    fields = [field for field in RuntimeConfig.model_fields if "context" in field]
    assert {f"--{field.replace('_', '-').replace('-bytes', '-mib')}" for field in fields} <= options


FIELDS: dict[str, tuple[type[Settings], str, int]] = {
    "port": (ServerConfig, "port", 1),
    "default_max_tokens": (ServerConfig, "default_max_tokens", 1),
    "drain": (ServerConfig, "drain_s", 1),
    "memory_mib": (RuntimeConfig, "memory_bytes", 2**20),
    "memory_budget_mib": (PoolConfig, "memory_budget_bytes", 2**20),
    "idle_unload": (PoolConfig, "idle_unload_s", 1),
    "context_disk_mib": (RuntimeConfig, "context_disk_bytes", 2**20),
    "context_app_mib": (RuntimeConfig, "context_app_bytes", 2**20),
    "context_memory_mib": (RuntimeConfig, "context_memory_bytes", 2**20),
    "contexts_per_app": (RuntimeConfig, "contexts_per_app", 1),
    "max_context_tokens": (RuntimeConfig, "max_context_tokens", 1),
    "context_compression": (RuntimeConfig, "context_compression", 1),
    "context_tolerance": (RuntimeConfig, "context_tolerance", 1),
    "background_jobs": (BackgroundConfig, "concurrent", 1),
    "background_jobs_per_app": (BackgroundConfig, "jobs_per_app", 1),
    "background_app_seconds": (BackgroundConfig, "seconds_per_app", 1),
    "background_max_load": (BackgroundConditions, "max_other_load", 1),
    "background_max_celsius": (BackgroundConditions, "max_celsius", 1),
}


def test_every_number_that_an_option_takes_is_one_of_its_setting() -> None:
    command = get_group(app).commands["serve"]
    options: dict[str, Any] = {str(option.name): option for option in command.params}
    ranged = {name: option for name, option in options.items() if getattr(option, "min", None) is not None}
    assert set(ranged) == set(FIELDS)
    for name, option in ranged.items():
        kind, field, unit = FIELDS[name]
        for value in {option.min, option.max, 0, 1, 1e-9} - {None}:
            try:
                taken = command.make_context("serve", [option.opts[0], repr(value)]).params[name]
            except typer.BadParameter:
                assert value not in (option.min, option.max), "the help says that it is taken"
                continue
            assert getattr(kind(**{field: taken * unit}), field) == taken * unit


def test_the_length_of_answers_without_max_tokens(bound: list[ServerConfig]) -> None:
    CliRunner().invoke(app, ["serve", "--no-auth", "--default-max-tokens", "7"])
    CliRunner().invoke(app, ["serve", "--no-auth"])
    assert [config.default_max_tokens for config in bound] == [7, None]


def test_whose_names_they_are() -> None:
    assert names_of_models(["a", "b"], []) == [[], []]
    assert names_of_models(["a"], ["x", "y"]) == [["x", "y"]]
    assert names_of_models(["a"], ["x=a"]) == [["x"]]
    assert names_of_models(["a", "b=1.gguf"], ["x=b=1.gguf", "y=a", "z=a"]) == [["y", "z"], ["x"]]


def test_a_home_folder_is_expanded_as_in_model() -> None:
    home = str(Path.home())
    assert names_of_models([f"{home}/x.gguf", "a"], ["coder=~/x.gguf"]) == [["coder"], []]
    assert names_of_models(["a", "~/x.gguf"], [f"coder={home}/x.gguf"]) == [[], ["coder"]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x", "which model it names. Give x=MODEL, where MODEL is one of a, b"),
        ("x=c", "'c' in 'x=c' is no value of --model. Give one of a, b"),
        ("=a", "is no name"),
        ("x=", "is no name"),
        ("", "is no name"),
    ],
)
def test_names_that_do_not_say_whose_they_are(name: str, message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        names_of_models(["a", "b"], [name])


@pytest.mark.parametrize("names", [["x", "x"], ["x", "y", "x=a"]])
def test_a_name_that_is_given_twice(names: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{names[-1]}' is given twice. Give it once"):
        names_of_models(["a"], names)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ([], None),
        (["--ollama"], "127.0.0.1:11434"),
        (["--ollama", "--no-auth"], "127.0.0.1:11434"),
        (["--ollama", "[::1]:80"], "[::1]:80"),
        (["--ollama=localhost:0", "--no-auth"], "localhost:0"),
    ],
)
def test_the_address_for_ollamas_clients(given: list[str], address: str | None) -> None:
    command = get_group(app).commands["serve"]
    assert command.make_context("serve", given).params["ollama"] == address


@pytest.mark.parametrize(
    "given", ["11434", "localhost", "localhost:", "a:99999", "http://a:1", "u@a:1", "a:1/"]
)
def test_what_is_no_address(given: str) -> None:
    result = CliRunner().invoke(app, ["serve", "--ollama", given])
    assert result.exit_code == 2
    assert "is no HOST:PORT" in " ".join(result.output.split())


def test_ollamas_clients_need_a_token_beyond_this_machine() -> None:
    result = CliRunner().invoke(app, ["serve", "--no-auth", "--ollama", "0.0.0.0:11434"])
    assert "reachable from other machines" in str(result.exception)


def test_with_ollamas_clients_a_unix_socket_needs_a_token_too(
    bound: list[ServerConfig], tmp_path: Path
) -> None:
    """Other users reach the port."""
    for more in ((), ("--ollama",), ("--ollama", "--no-auth")):
        CliRunner().invoke(app, ["serve", "--uds", str(tmp_path / "socket"), *more])
    assert [config.tokens is None for config in bound] == [True, False, True]
