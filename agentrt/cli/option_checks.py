"""Checks of options' values that their types and ranges cannot express.

They are the callbacks of the options: they hold on the command line and in the config file, also where
``agentrt config`` only shows it. They raise :class:`typer.BadParameter` or a setting's own
:class:`ConfigurationError`.
"""

from __future__ import annotations

import typer

from ..extras import missing_modules
from ..otel.variables import check_variables


def positive(value: float | None) -> float | None:
    """Refuse 0, which a range of numbers includes."""
    if value == 0:
        raise typer.BadParameter("it is 0. Give more than that.")
    return value


def origins(values: list[str] | None) -> list[str] | None:
    """Refuse what is no origin of web pages."""
    from agentrt.runtime.serving.http.config import check_origin

    for origin in values or ():
        check_origin(origin)
    return values


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
