"""Commands, and those whose options have the values of the config file where the command line has none."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import TypeAdapter, ValidationError
from typer.core import TyperCommand

from ..errors import ConfigurationError
from ..finite import parse_problem
from ..settings import expanded_path
from .config_file import ConfigFile, config_path, did_you_mean
from .options import check_options

CONFIGURED: Final = ("chat", "gateway", "serve")
"""The commands that have a table in the config file."""

# An option of the command line replaces these of the file, which contradict it or belong to its value.
_REPLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "context_folder": ("no_context_folder",),
    "host": ("uds",),
    "model": ("served_model_name",),
    "no_auth": ("token_file",),
    "no_context_folder": ("context_folder", "context_key", "context_disk_mib", "context_app_mib"),
    "port": ("uds",),
    "token_file": ("no_auth",),
}


class Command(TyperCommand):
    """A command whose options have values: an empty path would be the working folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises:
            BadParameter: the value of an option is empty.
        """
        given = self.given(ctx, args)
        for option in self.params:
            values = given.get(str(option.name)) if option.param_type_name == "option" else None
            if "" in (values if isinstance(values, list) else [values]):
                raise typer.BadParameter(
                    "it is empty. Give a value, or leave it out.", ctx=ctx, param_hint=option.opts[0]
                )
        return super().parse_args(ctx, args)

    def given(self, ctx: Any, args: list[str]) -> dict[str, Any]:
        """Return the values on the command line as they stand there, by the names of the parameters."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        return dict(given)


class ConfiguredCommand(Command):
    """A command with a table of its name in the config file.

    The keys of the table are the long names of the options, without dashes. The command line takes
    precedence over the file, and the file over the defaults.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, with the file's values as defaults.

        Raises:
            ConfigurationError: the file cannot be used. ``--help`` works all the same.
        """
        file = None
        if not ctx.resilient_parsing and not {*ctx.help_option_names} & {*args}:
            file = ConfigFile.read(config_path())
        if file is None:
            return super().parse_args(ctx, args)
        given = self.given(ctx, args)
        replaced = {name for option in given for name in _REPLACES.get(option, ())}
        values = {name: value for name, value in self.values_of(file).items() if name not in replaced}
        self._check(file, {name: value for name, value in values.items() if name not in given})
        ctx.default_map = values
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the shell leaves the ``~`` of ``--option=~/path`` to it."""
        for option in self.params:
            value = ctx.params.get(option.name)
            if isinstance(value, Path):
                try:
                    ctx.params[option.name] = expanded_path(value)
                except ValueError as error:
                    raise typer.BadParameter(
                        f"{error}. Correct it.", ctx=ctx, param_hint=option.opts[0]
                    ) from None
        ctx.invoke(check_options, str(self.name), ctx.params)
        return super().invoke(ctx)

    def values_of(self, file: ConfigFile) -> dict[str, Any]:
        """Return the values of this command's table in ``file``, by the names of the parameters.

        Raises:
            ConfigurationError: a key is unknown, or a value has another type than its option.
        """
        names = {key: name for name, key in self._keys.items()}
        hints = typing.get_type_hints(inspect.unwrap(self.callback or (lambda: None)))
        values = {}
        for key, value in file.table(str(self.name), CONFIGURED).items():
            if key not in names:
                hint = did_you_mean(key, names)
                problem = f"{key!r} is no option of agentrt {self.name}.{hint} Correct or remove it"
                raise file.error([str(self.name), key], problem)
            try:
                values[names[key]] = _converted(value, hints[names[key]])
            except ValueError as error:
                problem = f"{key}: {parse_problem(error)}. Correct it"
                raise file.error([str(self.name), key], problem) from None
        return values

    def settings(self, file: ConfigFile | None) -> Iterator[tuple[str, Any, bool]]:
        """Yield each key, its value in effect, and whether the value comes from ``file``.

        Raises:
            ConfigurationError: as :meth:`values_of`, or the command would refuse a value.
        """
        defaults = {parameter.name: parameter.default for parameter in self.params}
        if file is not None:
            values = self.values_of(file)
            self._check(file, values)
            try:
                check_options(str(self.name), defaults | values)
            except (typer.BadParameter, ConfigurationError) as error:
                raise self._in_file(file, error) from None
        table = {} if file is None else file.table(str(self.name), CONFIGURED)
        for name, key in self._keys.items():
            yield key, table.get(key, defaults[name]), key in table

    def _check(self, file: ConfigFile, values: Mapping[str, Any]) -> None:
        """Raise :class:`ConfigurationError` if an option refuses its value, by its name."""
        context = typer.Context(self, info_name=self.name)
        for option in self.params:
            if option.name not in values:
                continue
            try:
                option.process_value(context, values[option.name])
            except (typer.BadParameter, ConfigurationError) as error:
                raise self._in_file(file, error, option.opts[0]) from None

    def _in_file(
        self, file: ConfigFile, error: typer.BadParameter | ConfigurationError, option: str = ""
    ) -> ConfigurationError:
        """Return an error of ``option``, or of that which the error names, as one of its key in the file."""
        hint = error.param_hint if isinstance(error, typer.BadParameter) else None
        option = option or (hint if isinstance(hint, str) else "")
        said = error.message if isinstance(error, typer.BadParameter) else str(error)
        problem = said.removeprefix(f"{option}: ").removesuffix(".")
        advice = "" if ". " in problem else ". Correct it"
        if not option:
            return file.error([str(self.name)], f"[{self.name}]: {problem}{advice}")
        key = option.removeprefix("--")
        return file.error([str(self.name), key], f"{key}: {problem}{advice}")

    @property
    def _keys(self) -> dict[str, str]:
        """The keys of the file by the names of the parameters."""
        options = [parameter for parameter in self.params if parameter.param_type_name == "option"]
        return {str(option.name): option.opts[0].removeprefix("--") for option in options}


def _converted(value: Any, hint: Any) -> Any:
    """Return a value of the file as what its option takes.

    Raises:
        ValueError: it is of another type, empty, or a relative path.
    """
    if isinstance(value, str) and {list[str], list[Path]} & {hint, *typing.get_args(hint)}:
        value = [value]
    if value == [] or "" in (value if isinstance(value, list) else [value]):
        raise ValueError("it is empty")
    try:
        # As JSON, a path is a string, but true is no number and "8" is none.
        converted = TypeAdapter(hint).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from None
    if isinstance(converted, list):
        return [_absolute(each) for each in converted]
    return _absolute(converted)


def _absolute(value: Any) -> Any:
    """Return ``value``; if it is a path, with ``~`` expanded."""
    if not isinstance(value, Path):
        return value
    path = expanded_path(value)
    if not path.is_absolute():
        raise ValueError(f"{str(value)!r} is a relative path. Write it from / or ~")
    return path
