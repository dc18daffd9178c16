"""``agentrt gateway``: the tool cache before an engine that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigurationError
from ..extras import require_extra
from .listening import (
    Drain,
    Host,
    NoAuth,
    Port,
    TokenFile,
    Uds,
    announce,
    choose_tokens,
    leave_on_sigterm,
    say,
)


def gateway(
    upstream: Annotated[
        str, typer.Option(help="The engine's base URL, such as http://127.0.0.1:8000/v1.", show_default=False)
    ],
    upstream_key_file: Annotated[
        Path | None,
        typer.Option(help="A file with the engine's API key; clients need not know it then.", dir_okay=False),
    ] = None,
    upstream_timeout: Annotated[
        float, typer.Option(help="Seconds without a word from the engine before it is given up.", min=0.1)
    ] = 600,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    uds: Uds = None,
    token_file: TokenFile = None,
    no_auth: NoAuth = False,
    drain: Drain = 30,
) -> None:
    """Put the tool cache before any OpenAI-compatible engine; Ctrl-C or SIGTERM ends it.

    Without --token-file and --no-auth a token is made for this run and printed; a Unix socket needs none.
    Where the gateway asks for no token and has no key file, the clients' own API keys reach the engine.
    """
    require_extra("gateway")
    from agentrt.runtime.gateway import GatewayConfig, bind, create_gateway, serve

    leave_on_sigterm()
    tokens, minted = choose_tokens(token_file, no_auth, uds)
    config = GatewayConfig(
        upstream=upstream,
        upstream_key=None if upstream_key_file is None else _key(upstream_key_file),
        upstream_timeout_s=upstream_timeout,
        host=host,
        port=port,
        uds=uds,
        tokens=tokens,
        drain_s=drain,
    )
    with bind(config) as listener:
        serve(
            create_gateway(config),
            config,
            listener,
            lambda: announce(f"the engine at {upstream}", config, listener, minted),
        )
    say("stopped")


def _key(path: Path) -> str:
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read a key from {path} ({error}). Write it there.") from error
    if not key or any(character.isspace() for character in key):
        raise ConfigurationError(f"{path} does not hold one key. Write it there, and nothing else.")
    return key
