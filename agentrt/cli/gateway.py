"""``agentrt gateway``: the tool cache in front of an engine that has none."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigurationError
from ..extras import require_extra
from .options import engine_address, redis_address
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
    say_waiting,
    serving,
)

_DAY_S = 86_400

_of_engine = functools.partial(typer.Option, rich_help_panel="Engine")
_of_replicas = functools.partial(typer.Option, rich_help_panel="Replicas")


def gateway(
    upstream: Annotated[
        str,
        _of_engine(help="The engine's base URL, such as http://127.0.0.1:8000/v1.", callback=engine_address),
    ],
    upstream_key_file: Annotated[
        Path | None,
        _of_engine(
            help="A file with the engine's API key, which only you can read. Clients then need not have it.",
            dir_okay=False,
        ),
    ] = None,
    upstream_timeout: Annotated[
        float,
        _of_engine(
            help="Seconds without data from the engine after which a request fails.", min=0.1, max=_DAY_S
        ),
    ] = 600,
    redis: Annotated[
        str | None,
        _of_replicas(
            help="The URL of a Redis or Valkey server, such as redis://127.0.0.1:6379/0. Replicas of the "
            "gateway with the same token file share tool outputs in it.",
            callback=redis_address,
        ),
    ] = None,
    redis_password_file: Annotated[
        Path | None,
        _of_replicas(help="A file with the password of Redis, which only you can read.", dir_okay=False),
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
    begin_serving()
    from agentrt.runtime.serving.gateway import GatewayConfig, bind, create_gateway, serve

    tokens, access = choose_tokens(token_file, no_auth, uds)
    config = GatewayConfig(
        upstream=upstream,
        upstream_key=_read_key("--upstream-key-file", upstream_key_file),
        upstream_timeout_s=upstream_timeout,
        redis=redis,
        redis_password=_read_key("--redis-password-file", redis_password_file),
        host=host,
        port=port,
        uds=uds,
        tokens=tokens,
        cors_origins=frozenset(cors_origin or ()),
        drain_s=drain,
    )
    with serving(bind(config)) as listener:
        serve(
            create_gateway(config),
            config,
            [listener],
            lambda: announce(f"the engine at {upstream}", config, listener, access, page=False),
            say_waiting,
        )


def _read_key(option: str, path: Path | None) -> str | None:
    """Return the API key or password in the file that ``option`` names, None if it names none.

    Raises:
        ConfigurationError: the file cannot be used, or holds something other than one key.
    """
    from agentrt.own_files import OwnFileError, read_own_file

    if path is None:
        return None
    try:
        key = read_own_file(path).strip()
    except OwnFileError as error:
        raise ConfigurationError(f"{option}: {path} cannot be used: {error}.") from error
    if not key.isascii() or len(key.split()) != 1:
        raise ConfigurationError(
            f"{option}: {path} does not hold one key. Write the key there, in ASCII, and nothing else."
        )
    return key
