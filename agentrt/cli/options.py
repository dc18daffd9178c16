"""Options that several commands share, checks of values, and rules between options.

Types and ranges of options cannot express the checks. These are callbacks of the options: they hold on the
command line and in the config file, also where ``agentrt config`` only shows it. They raise
:class:`typer.BadParameter` or a setting's own :class:`ConfigurationError`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

import typer

from ..extras import missing_modules
from ..otel.exporting import check_variables
from ..settings import expanded_path


def complete_model(incomplete: str) -> list[str]:
    """Return the names that begin with ``incomplete``; where there is none, shells complete a path."""
    names = ["nano"]
    with contextlib.suppress(ImportError, OSError):  # a completion prints no errors
        from agentrt.runtime.model.hub.pulled import pulled_models

        names += pulled_models()
    return [name for name in names if name.startswith(incomplete)]


AssistantModel: TypeAlias = Annotated[
    str,
    typer.Option(
        help="A folder with an OpenVINO model, a GGUF file, a pulled name, or nano, the demonstration model.",
        autocompletion=complete_model,
    ),
]
WeatherDelay: TypeAlias = Annotated[
    float, typer.Option(help="Seconds that the weather service takes to answer.", min=0, max=60)
]


def own_data(use: str, servers: str = "") -> Any:
    """Return the option ``--data``; ``use`` says what happens to the data, ``servers`` names addresses."""
    return typer.Option(
        help=f"Your own data: a calendar (.ics), mail (a Maildir{servers} or an mbox file), a note (.md), "
        "another text file, or a folder with any of these; may be given several times. "
        f"{use} Without it, sample data is used.",
        callback=_checked_data,
    )


def _checked_data(
    context: typer.Context, option: typer.CallbackParam, values: list[str] | None
) -> list[str] | None:
    """Return addresses of mail and paths, these with ``~`` expanded; refuse what cannot be read."""
    from agentrt.examples.assistant.imap import Address

    source = context.get_parameter_source(str(option.name))
    typed = source is not None and source.name == "COMMANDLINE"
    checked = []
    for value in values or ():
        if Address.parse(value):
            checked.append(value)
            continue
        try:
            path = expanded_path(value)
        except ValueError as error:
            raise typer.BadParameter(f"{error}. Correct it.") from None
        if not typed and not path.is_absolute():
            raise typer.BadParameter(f"{value!r} is a relative path. Write it from / or ~.")
        if not os.access(path, os.R_OK):
            problem = "may not be read" if path.exists() else "does not exist"
            raise typer.BadParameter(f"{value!r} {problem}. Give a file or folder of yours.")
        checked.append(str(path))
    return None if values is None else checked


def origins(values: list[str] | None) -> list[str] | None:
    """Refuse what is no origin of web pages."""
    from agentrt.runtime.serving.http.config import check_origin

    for origin in values or ():
        check_origin(origin)
    return values


def host_and_port(value: str) -> tuple[str, int]:
    """Return the parts of ``HOST:PORT``; raise :class:`typer.BadParameter` for another text."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(f"//{value}")
        if parts.netloc == value and parts.hostname and parts.port is not None and not parts.username:
            return parts.hostname, parts.port
    raise typer.BadParameter(f"{value!r} is no HOST:PORT. Give an address such as 127.0.0.1:11434.")


def listen_address(value: str | None) -> str | None:
    """Refuse what is no ``HOST:PORT``."""
    if value is not None:
        host_and_port(value)
    return value


def engine_address(value: str) -> str:
    """Refuse what is no address of an engine; without the extra that parses it, nothing."""
    if not missing_modules("gateway"):
        check_variables()  # FastAPI's import reads them
        from agentrt.runtime.serving.gateway import GatewayConfig

        GatewayConfig(upstream=value).root()
    return value


def redis_address(value: str | None) -> str | None:
    """Refuse what is no address of a Redis server; without the extra of the gateway, nothing."""
    if value is not None and not missing_modules("gateway"):
        check_variables()
        from agentrt.runtime.serving.gateway.bounded_redis import check_redis_url

        check_redis_url(value)
    return value


_NEEDS: Final[Mapping[str, Mapping[str, str]]] = {
    "chat": {},
    "gateway": {"redis_password_file": "redis"},
    "serve": {
        "embedding_pooling": "embedding_model",
        "history_folder": "drafts",
    },
}
"""Of each command, options that mean nothing without another one."""


def check_options(command: str, options: Mapping[str, Any]) -> None:
    """Check that the options of ``command`` go together: their values, by the names of the parameters.

    Raises:
        BadParameter: an option needs another one, or contradicts it.
        ConfigurationError: other machines could send requests without a token.
    """
    for name, needed in _NEEDS[command].items():
        if options.get(name) is not None and options.get(needed) is None:
            raise typer.BadParameter(f"only {_option(needed)} needs one. Add it.", param_hint=_option(name))
    if "no_auth" in options:
        _check_access(options)
    if "context_folder" in options:
        _check_contexts(options)
    if command == "serve" and not missing_modules("runtime"):
        names_of_models(options.get("model") or ["nano"], options.get("served_model_name") or [])


def _check_access(options: Mapping[str, Any]) -> None:
    from agentrt.runtime.serving.http.config import ListenConfig

    if not options["no_auth"]:
        return
    if options["token_file"] is not None:
        raise typer.BadParameter(
            "it cannot be combined with --token-file. Leave one of them out.", param_hint="--no-auth"
        )
    ListenConfig(host=options["host"], uds=options["uds"]).check()
    if options.get("ollama") is not None:
        ListenConfig(host=host_and_port(options["ollama"])[0]).check()


def _check_contexts(options: Mapping[str, Any]) -> None:
    if options["context_folder"] is not None:
        if options["no_context_folder"]:
            raise typer.BadParameter(
                "it cannot be combined with --context-folder. Leave one of them out.",
                param_hint="--no-context-folder",
            )
        return
    if options["no_context_folder"] or options["no_auth"]:
        for name in ("context_key", "context_disk_mib", "context_app_mib"):
            if options.get(name) is not None:
                raise typer.BadParameter(
                    "contexts are kept in memory only. Add --context-folder.", param_hint=_option(name)
                )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


_OPTION = "--served-model-name"


def names_of_models(models: Sequence[str], served_names: Sequence[str]) -> list[list[str]]:
    """Return the names given to each of ``models``, in their order; a model without any has its own.

    A served name is ``NAME``, where there is one model, or ``NAME=MODEL``, where ``MODEL`` is one of them;
    a ``~`` in it is expanded, as the shell expands only that of ``--model ~/FILE``.

    Raises:
        BadParameter: a name does not say whose it is, is that of a model that is not among ``models``, or is
            given twice.
    """
    from agentrt.runtime.model.directory import path_of

    paths = [path_of(model) for model in models]
    names: list[list[str]] = [[] for _ in models]
    for served in served_names:
        name, separator, model = served.partition("=")
        if not name or (separator and not model):
            raise typer.BadParameter(
                f"{served!r} is no name. Give NAME, or NAME=MODEL with several models.", param_hint=_OPTION
            )
        if not separator and len(models) > 1:
            raise typer.BadParameter(
                f"{name!r} does not say which model it names. Give {name}=MODEL, where MODEL is one of "
                f"{', '.join(models)}.",
                param_hint=_OPTION,
            )
        if separator and path_of(model) not in paths:
            raise typer.BadParameter(
                f"{model!r} in {served!r} is no value of --model. Give one of {', '.join(models)}.",
                param_hint=_OPTION,
            )
        of_model = names[paths.index(path_of(model)) if separator else 0]
        if name in of_model:
            raise typer.BadParameter(f"{served!r} is given twice. Give it once.", param_hint=_OPTION)
        of_model.append(name)
    return names
