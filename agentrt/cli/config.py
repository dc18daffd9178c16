"""``agentrt config``: the config file, and the settings in effect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ConfigurationError
from .command import CONFIGURED, ConfiguredCommand
from .config_file import ConfigFile, config_path, tokens_path


def config(
    context: typer.Context,
    init: Annotated[
        bool,
        typer.Option(
            "--init",
            help="Create the config file, with every option commented out, and a file with a token that "
            "agentrt serve and gateway then accept after each start. Files that exist stay as they are.",
        ),
    ] = False,
) -> None:
    """Show where the config file is, and the settings in effect, with the defaults as comments."""
    commands: dict[str, Any] = getattr(context.find_root().command, "commands", {})
    configured = [commands[name] for name in CONFIGURED]
    if init:
        _create(configured)
        return
    file = ConfigFile.read(config_path())
    print(f"# {config_path()}{'' if file else ': no such file. Create it: agentrt config --init'}")
    there = os.path.lexists(tokens_path())
    print(f"# tokens: {tokens_path() if there else 'none that stays. Create one: agentrt config --init'}")
    print(_as_toml(configured, file), end="")


def _create(commands: list[ConfiguredCommand]) -> None:
    """Create the folder and the files that are missing.

    Raises:
        ConfigurationError: one of them cannot be created, or is there and cannot be used.
    """
    from agentrt.runtime.serving.http.identity import Tokens

    path = config_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        created = _write_new(path, _as_toml(commands, None).lstrip())
        print(f"created {path}" if created else f"{path} is there already, and stays as it is")
    except OSError as error:
        raise ConfigurationError(
            f"cannot create {path} ({error.strerror}). Make its folder yours, or write the file by hand."
        ) from error
    there = os.path.lexists(tokens_path())
    Tokens.read(tokens_path())
    print(
        f"{tokens_path()} is there already, and stays as it is"
        if there
        else f"created {tokens_path()}, a line APP TOKEN for each app"
    )


def _write_new(path: Path, text: str) -> bool:
    """Write a file that only its owner can read; return False if there is one, which stays."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def _as_toml(commands: list[ConfiguredCommand], file: ConfigFile | None) -> str:
    """Return the settings in effect as TOML, with the defaults as comments."""
    lines = []
    for command in commands:
        lines.append(f"\n[{command.name}]")
        for key, value, set_in_file in command.settings(file):
            # JSON's strings, numbers, booleans and lists are TOML's.
            shown = "" if value is None else f" {json.dumps(value, ensure_ascii=False, default=str)}"
            lines.append(f"{'' if set_in_file else '# '}{key} ={shown}")
    return "\n".join(lines) + "\n"
