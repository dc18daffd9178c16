"""``agentrt serve``: the local runtime as an HTTP service for OpenAI clients."""

from __future__ import annotations

from typing import Annotated

import typer

from ..extras import require_extra
from .opening_bar import opening_bar
from .serving import (
    Drain,
    Host,
    NoAuth,
    Port,
    TokenFile,
    Uds,
    announce,
    choose_tokens,
    exit_on_sigterm,
    say,
)

_MAX_MEMORY_MIB = 2**30


def serve(
    model: Annotated[
        str,
        typer.Option(
            help="A folder with an OpenVINO model, a GGUF file, or nano for the demonstration model."
        ),
    ] = "nano",
    host: Host = "127.0.0.1",
    port: Port = 8000,
    uds: Uds = None,
    token_file: TokenFile = None,
    no_auth: NoAuth = False,
    memory_mib: Annotated[
        int, typer.Option(help="Memory of the KV cache, besides the weights.", min=1, max=_MAX_MEMORY_MIB)
    ] = 256,
    drain: Drain = 30,
) -> None:
    """Serve a model to OpenAI clients until Ctrl-C or SIGTERM.

    Without --token-file or --no-auth, a token is created for this run and printed. A Unix socket needs none.
    """
    require_extra("serve")
    from agentrt.runtime import LocalRuntime, RuntimeConfig
    from agentrt.runtime.server import ServerConfig, bind, create_app
    from agentrt.runtime.server import serve as serve_app

    exit_on_sigterm()
    tokens, created = choose_tokens(token_file, no_auth, uds)
    config = ServerConfig(host=host, port=port, uds=uds, tokens=tokens, drain_s=drain)
    with bind(config) as listener:
        say(f"opening {model}")
        with opening_bar() as show:
            opened = LocalRuntime.open(model, RuntimeConfig(memory_bytes=memory_mib * 2**20), on_step=show)
        with opened as runtime:
            serve_app(
                create_app(runtime, config),
                config,
                listener,
                lambda: announce(runtime.model_id, config, listener, created),
            )
    say("stopped")
