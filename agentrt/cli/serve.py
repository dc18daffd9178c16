"""``agentrt serve``: the local runtime as a service for any OpenAI client."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import MissingExtraError
from .extras import missing_modules


def serve(
    model: Annotated[
        str, typer.Option(help="A folder with an OpenVINO model, or nano for the demonstration model.")
    ] = "nano",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    uds: Annotated[
        Path | None, typer.Option(help="Listen on this Unix socket instead; only you may connect.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="Lines of APP TOKEN: who may ask. Written with a fresh token if it is not there.",
            dir_okay=False,
        ),
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Ask for no token.")] = False,
    memory_mib: Annotated[
        int, typer.Option(help="Memory for keys and values, beside the weights.", min=1)
    ] = 256,
    drain: Annotated[
        int, typer.Option(help="Seconds that requests may go on after SIGTERM or Ctrl-C.", min=0)
    ] = 30,
) -> None:
    """Serve a model on this machine to any OpenAI client; Ctrl-C or SIGTERM ends it.

    Without --token-file and --no-auth a token is made for this run and printed; a Unix socket needs none.
    """
    for module in (*missing_modules("runtime"), *missing_modules("serve")):
        raise MissingExtraError(module, "serve")
    from agentrt.runtime import LocalRuntime, RuntimeConfig
    from agentrt.runtime.server import ServerConfig, bind
    from agentrt.runtime.server import serve as serve_runtime
    from agentrt.runtime.server.identity import Tokens

    if token_file is not None and no_auth:
        raise typer.BadParameter("give either a token file or none", param_hint="--no-auth")
    # Until the server takes over: end at once, but in order.
    signal.signal(signal.SIGTERM, _leave)
    minted = None
    tokens = None if token_file is None else Tokens.read(token_file)
    if tokens is None and not no_auth and uds is None:
        tokens, minted = Tokens.mint()
    config = ServerConfig(host=host, port=port, uds=uds, tokens=tokens, drain_s=drain)
    with bind(config) as listener:
        _say(f"opening {model}")
        with LocalRuntime.open(model, RuntimeConfig(memory_bytes=memory_mib * 2**20)) as runtime:

            def ready() -> None:
                if uds is not None:
                    _say(f"serving {runtime.model_id} on the socket {uds}")
                else:
                    shown = f"[{host}]" if ":" in host else host
                    _say(f"serving {runtime.model_id} at http://{shown}:{listener.getsockname()[1]}/v1")
                if minted is not None:
                    _say(f"token for this run: {minted}")

            serve_runtime(runtime, config, listener, ready)
    _say("stopped")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _leave(*_: Any) -> None:
    raise SystemExit(0)
