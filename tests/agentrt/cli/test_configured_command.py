"""Values of the config file in commands: command line before file before default."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_group
from typer.testing import CliRunner

from agentrt.cli.command import CONFIGURED, ConfiguredCommand
from agentrt.cli.main import app
from agentrt.errors import ConfigurationError

ParametersOf = Callable[..., dict[str, Any]]


@pytest.fixture
def parameters_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ParametersOf:
    """Returns what a command is called with, where the config file has a text."""
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / name)

    def parse(text: str, command: str, *arguments: str) -> dict[str, Any]:
        path = tmp_path / "agentrt" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        parameters: dict[str, Any] = (
            get_group(app).commands[command].make_context(command, list(arguments)).params
        )
        return parameters

    return parse


def test_every_configured_command_is_one() -> None:
    commands = get_group(app).commands
    configured = [name for name, command in commands.items() if isinstance(command, ConfiguredCommand)]
    assert sorted(configured) == sorted(CONFIGURED)


@pytest.mark.parametrize(
    ("text", "command", "arguments", "expected"),
    [
        (
            "[serve]\nport = 9000\nmemory-mib = 512\n",
            "serve",
            ["--port", "0"],
            {"port": 0, "memory_mib": 512, "drain": 30},
        ),
        ("[serve]\nport = 9000\n", "serve", ["--port", "8000"], {"port": 8000}),  # the default
        ('[serve]\nmodel = ["a", "b"]\n', "serve", ["--model", "nano"], {"model": ["nano"]}),
        ('[serve]\nmodel = "nano"\n', "serve", [], {"model": ["nano"]}),
        ('[gateway]\nupstream = "http://x:9000"\n', "gateway", [], {"upstream": "http://x:9000"}),
    ],
)
def test_the_command_line_comes_before_the_file_and_the_file_before_the_default(
    parameters_of: ParametersOf, text: str, command: str, arguments: list[str], expected: dict[str, Any]
) -> None:
    parameters = parameters_of(text, command, *arguments)
    assert {name: parameters[name] for name in expected} == expected


def test_values_of_every_type(parameters_of: ParametersOf) -> None:
    text = """
        [serve]
        model = ["nano", "~/a.gguf"]
        host = "::1"
        drafts = true
        idle-unload = 60
        context-folder = "~/contexts"
        context-tolerance = 0.01
        context-key = "keyring"
    """
    parameters = parameters_of(text, "serve")
    assert list(parameters["model"]) == ["nano", "~/a.gguf"]
    assert parameters["host"] == "::1"
    assert parameters["drafts"] is True
    assert parameters["idle_unload"] == 60
    assert parameters["context_folder"] == Path.home() / "contexts"
    assert parameters["context_tolerance"] == 0.01
    assert parameters["context_key"] == "keyring"


@pytest.mark.parametrize(
    ("text", "arguments", "name"),
    [
        ('token-file = "/t"', ["--no-auth"], "token_file"),
        ("no-auth = true", ["--token-file", "t"], "no_auth"),
        ('uds = "/s"', ["--port", "0"], "uds"),
        ('uds = "/s"', ["--host", "::1"], "uds"),
        ('served-model-name = "gpt-4o"', ["--model", "nano"], "served_model_name"),
    ],
)
def test_the_command_line_replaces_what_contradicts_it(
    parameters_of: ParametersOf, text: str, arguments: list[str], name: str
) -> None:
    assert parameters_of(f"[serve]\n{text}\n", "serve")[name]
    assert not parameters_of(f"[serve]\n{text}\n", "serve", *arguments)[name]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("[serve]\n\nmemory_mib = 5\n", 3, "no option of agentrt serve. Did you mean memory-mib?"),
        ("[serve]\ntoken = 'secret'\n", 2, "Did you mean token-file?"),
        ("[serve]\nxyzzy = 1\n", 2, "'xyzzy' is no option of agentrt serve. Correct or remove it."),
        ("[serve]\nport = true\n", 2, "port: "),
        ("[serve]\nport = '8000'\n", 2, "port: "),
        ("[serve]\nport = 1979-05-27\n", 2, "port: "),
        ("[serve]\nport = 70000\n", 2, "port: "),
        ("[serve]\nno-auth = 1\n", 2, "no-auth: "),
        ("[serve]\nhost = 5\n", 2, "host: "),
        ("[serve]\ndrain = nan\n", 2, "drain: "),
        ("[serve]\nidle-unload = inf\n", 2, "idle-unload: "),
        ("[serve]\nidle-unload = -1\n", 2, "idle-unload: "),
        ("[serve]\nmemory-mib = 0x" + "f" * 5000, 2, "memory-mib: an integer of thousands of digits."),
        ("[serve]\nmodel = " + "[" * 100 + "]" * 100, 2, "model: "),
        ("[serve]\ncontext-folder = ''\n", 2, "context-folder: it is empty. Correct it."),
        ("[serve]\nmodel = ['nano', '']\n", 2, "model: it is empty. Correct it."),
        ("[serve]\nuds = '~nobody-here/x'\n", 2, "uds: '~nobody-here/x' begins"),
        ("[serve]\nmodel = [1]\n", 2, "model: "),
        (
            "[serve]\nuds = 'socket'\n",
            2,
            "'socket' is a relative path. Write it from / or ~. Correct it.",
        ),
        ("[serve]\nhelp = true\n", 2, "'help' is no option"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(
    parameters_of: ParametersOf, text: str, line: int, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parameters_of(text, "serve")
    assert problem in str(raised.value)
    assert f", line {line}: " in str(raised.value)


def test_the_argument_of_a_command_is_no_key(parameters_of: ParametersOf) -> None:
    with pytest.raises(ConfigurationError, match="'question' is no option"):
        parameters_of("[chat]\nquestion = 'why?'\n", "chat")


def test_an_error_of_the_command_line_is_not_put_on_the_file(parameters_of: ParametersOf) -> None:
    with pytest.raises(typer.BadParameter):
        parameters_of("[serve]\nport = 70000\n", "serve", "--port", "80000")


def test_help_works_with_a_file_that_does_not(parameters_of: ParametersOf) -> None:
    with pytest.raises(ConfigurationError):
        parameters_of("[serve\n", "serve")
    for command in CONFIGURED:
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0


def test_no_environment_variable_is_a_setting(
    parameters_of: ParametersOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PORT", "AGENTRT_PORT", "AGENTRT_SERVE_PORT", "SERVE_PORT"):
        monkeypatch.setenv(name, "1")
    assert parameters_of("", "serve")["port"] == 8000


@pytest.mark.parametrize(
    ("command", "key"), [("gateway", "upstream-timeout"), ("chat", "weather-delay"), ("serve", "idle-unload")]
)
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-1.0", "1e300"])
def test_times_in_the_file_are_bounded(
    parameters_of: ParametersOf, command: str, key: str, value: str
) -> None:
    given = ["--upstream", "http://x"] if command == "gateway" else []
    with pytest.raises(ConfigurationError, match=f"line 3: {key}: "):
        parameters_of(f"\n[{command}]\n{key} = {value}\n", command, *given)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_every_number_on_the_command_line_is_bounded(parameters_of: ParametersOf, value: str) -> None:
    found = 0
    for name, command in get_group(app).commands.items():
        hints = typing.get_type_hints(inspect.unwrap(command.callback or print))
        for option in command.params:
            hint = hints.get(str(option.name))
            if float not in (hint, *typing.get_args(hint)):
                continue
            found += 1
            required = ["--upstream", "http://x"] if name == "gateway" else []
            with pytest.raises(typer.BadParameter) as raised:
                parameters_of("", name, *required, option.opts[0], value)
            assert raised.value.param is not None
            assert raised.value.param.name == option.name
    assert found > 5
