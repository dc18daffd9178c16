"""Checks of options' values that their types and ranges cannot express.

They are the callbacks of the options: they hold on the command line and in the config file, also where
``agentrt config`` only shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..errors import ConfigurationError
from ..extras import missing_modules


def positive(value: float | None) -> float | None:
    """Refuse 0, which a range of numbers includes."""
    if value == 0:
        raise typer.BadParameter("it is 0. Give more than that.")
    return value


def origins(values: list[str] | None) -> list[str] | None:
    """Refuse what is no origin of web pages."""
    from agentrt.runtime.http.config import check_origin

    with _bad_parameter():
        for origin in values or ():
            check_origin(origin)
    return values


def engine_address(value: str) -> str:
    """Refuse what is no address of an engine; without the extra that parses it, nothing."""
    if not missing_modules("gateway"):
        from agentrt.runtime.gateway.address import engine_root

        with _bad_parameter():
            engine_root(value)
    return value


def redis_address(value: str | None) -> str | None:
    """Refuse what is no address of a Redis server; without the extra of the gateway, nothing."""
    if value is not None and not missing_modules("gateway"):
        from agentrt.runtime.gateway.bounded_redis import check_redis_url

        with _bad_parameter():
            check_redis_url(value)
    return value


@contextmanager
def _bad_parameter() -> Iterator[None]:
    """Raise the error of a setting as that of an option."""
    try:
        yield
    except ConfigurationError as error:
        # The option is named by typer, or by the key of the config file.
        raise typer.BadParameter(str(error).removeprefix("--upstream: ")) from error
