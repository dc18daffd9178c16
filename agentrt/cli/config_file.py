"""The config file: a TOML table for each command, with values for its options."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..errors import ConfigurationError
from ..finite import parse_problem


def config_folder() -> Path:
    """Return the folder of the user's settings of agentrt, which need not exist."""
    import platformdirs

    return platformdirs.user_config_path("agentrt")


def config_path() -> Path:
    """Return the path of the user's config file, which need not exist."""
    return config_folder() / "config.toml"


def tokens_path() -> Path:
    """Return the path of the token file that servers use by default, which need not exist."""
    return config_folder() / "tokens"


@dataclass(frozen=True)
class ConfigFile:
    """A config file. Its keys are not checked."""

    path: Path
    text: str
    tables: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read the file; return None if there is none.

        Raises:
            ConfigurationError: the file cannot be read, is not TOML, or can be changed by other users.
        """
        if not os.path.lexists(path):
            return None
        from agentrt.own_files import OwnFileError, read_own_file

        try:
            # It decides who may use the server.
            text = read_own_file(path, secret=False).replace("\r\n", "\n")
        except OwnFileError as error:
            raise ConfigurationError(f"{path}: it cannot be used: {error}.") from error
        try:
            return cls(path, text, tomllib.loads(text))
        except (ValueError, RecursionError) as error:  # TOML's errors are ValueErrors
            raise ConfigurationError(
                f"{path}: it cannot be read ({parse_problem(error)}). Correct or remove it."
            ) from error

    def table(self, name: str, known: Iterable[str]) -> Mapping[str, Any]:
        """Return the table ``name``, empty if there is none.

        Raises:
            ConfigurationError: a table is not among ``known``, or a value stands outside of the tables.
        """
        names = sorted(known)
        for found, value in self.tables.items():
            if found not in names:
                hint = did_you_mean(found, names)
                tables = ", ".join(f"[{each}]" for each in names)
                raise self.error([found], f"{found!r} is none of the tables {tables}.{hint} Correct it")
            if not isinstance(value, dict):
                raise self.error([found], f"{found!r} is a value. Write a table, [{found}]")
        table: Mapping[str, Any] = self.tables.get(name, {})
        return table

    def error(self, keys: Sequence[str], problem: str) -> ConfigurationError:
        """Return an error in the value at ``keys``, the names of a table and of a key in it."""
        line = self._line(keys)
        place = f", line {line}" if line else ""
        return ConfigurationError(f"{self.path}{place}: {problem}.")

    def _line(self, keys: Sequence[str]) -> int:
        """Return the line on which the value at ``keys`` begins, counted from 1."""
        # The parser does not say where a value stands: it is in the first lines that, parsed alone, have it.
        lines, begin = self.text.split("\n"), 1
        for end in range(1, len(lines) + 1):
            try:
                found: Any = tomllib.loads("\n".join(lines[:end]))
            except tomllib.TOMLDecodeError:
                continue  # in the middle of a value of several lines
            for key in keys:
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                return begin
            begin = end + 1
        return 0


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar of ``known``, after a space; empty if none is similar."""
    similar = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {similar[0]}?" if similar else ""
