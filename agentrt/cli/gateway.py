"""``agentrt gateway``: the tool cache in front of an engine that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigurationError
from ..extras import require_extra
from .serving import (
    CorsOrigins,
    Drain,
    Host,
    NoAuth,
    Port,
    TokenFile,
    Uds,
    announce,
    begin_serving,
    choose_tokens,
    exporting_telemetry,
    say,
    say_waiting,
)

_PANEL = "Engine"
_REPLICAS = "Replicas"


def gateway(
    upstream: Annotated[
        str,
        typer.Option(
            help="The engine's base URL, such as http://127.0.0.1:8000/v1.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ],
    upstream_key_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with the engine's API key. Clients then need not have it.",
            dir_okay=False,
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    upstream_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds without data from the engine after which a request fails.",
            min=0.1,
            rich_help_panel=_PANEL,
        ),
    ] = 600,
    redis: Annotated[
        str | None,
        typer.Option(
            help="The URL of a Redis or Valkey server, such as redis://127.0.0.1:6379/0. Replicas of the "
            "gateway with the same token file share tool outputs in it.",
            show_default=False,
            rich_help_panel=_REPLICAS,
        ),
    ] = None,
    redis_password_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with the password of Redis.",
            dir_okay=False,
            show_default=False,
            rich_help_panel=_REPLICAS,
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    uds: Uds = None,
    token_file: TokenFile = None,
    no_auth: NoAuth = False,
    cors_origin: CorsOrigins = None,
    drain: Drain = 30,
) -> None:
    """Put the tool cache in front of an OpenAI-compatible engine until Ctrl-C or SIGTERM.

    Requests need a token: that of agentrt config --init, or one that is created for this run and printed. A
    Unix socket needs none.
    Where the gateway requires no token and has no key file, the clients' own API keys reach the engine.
    """
    require_extra("gateway")
    if redis is not None:
        require_extra("redis")
    from agentrt.runtime.gateway import GatewayConfig, bind, create_gateway, serve

    begin_serving()
    tokens, access = choose_tokens(token_file, no_auth, uds)
    config = GatewayConfig(
        upstream=upstream,
        upstream_key=None if upstream_key_file is None else _read_key(upstream_key_file),
        upstream_timeout_s=upstream_timeout,
        redis=redis,
        redis_password=None if redis_password_file is None else _read_key(redis_password_file),
        host=host,
        port=port,
        uds=uds,
        tokens=tokens,
        cors_origins=frozenset(cors_origin or ()),
        drain_s=drain,
    )
    with exporting_telemetry(), bind(config) as listener:
        serve(
            create_gateway(config),
            config,
            listener,
            lambda: announce(f"the engine at {upstream}", config, listener, access),
            say_waiting,
        )
    say("stopped")


def _read_key(path: Path) -> str:
    """Return the API key or password in a file.

    Raises:
        ConfigurationError: the file cannot be read, or holds something other than one key.
    """
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read a key from {path} ({error}). Name a text file that holds the key."
        ) from error
    if not key or any(character.isspace() for character in key):
        raise ConfigurationError(f"{path} does not hold one key. Write the key there, and nothing else.")
    return key
