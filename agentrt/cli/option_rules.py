"""Rules between the options of a command.

They hold on the command line and in the config file, also where ``agentrt config`` only shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer

from ..extras import missing_modules

_NEEDS: Final[Mapping[str, Mapping[str, str]]] = {
    "chat": {},
    "gateway": {"redis_password_file": "redis"},
    "serve": {
        "context_key": "context_folder",
        "context_disk_mib": "context_folder",
        "context_app_mib": "context_folder",
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
    if command == "serve" and not missing_modules("runtime"):
        from .served_names import names_of_models

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


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
