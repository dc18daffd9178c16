"""``agentrt serve``: local models as an HTTP service for OpenAI clients."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from ..extras import require_extra
from .command import ConfiguredCommand
from .kept_contexts import (
    HOW_TO_SEE,
    MOST_MIB,
    keep_contexts,
    key_of,
    no_context_folder_option,
    own_context_folder,
)
from .options import complete_model, host_and_port, listen_address, names_of_models
from .output import opening_bar, say
from .running_server import found_by_chat
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
    origin_of,
    say_waiting,
    serving,
)

if TYPE_CHECKING:
    from agentrt.runtime import PooledModel

    from .serving import Access

_MAX_MEMORY_MIB = 2**30
_MAX_CONTEXTS = 1_000_000
_DAY_S = 86_400
_YEAR_S = 365 * _DAY_S
OLLAMA_ADDRESS: Final = "127.0.0.1:11434"
"""Where Ollama listens, and ``--ollama`` without a value."""

_of_models = functools.partial(typer.Option, rich_help_panel="Models")
_of_contexts = functools.partial(typer.Option, rich_help_panel="Contexts")
_of_background = functools.partial(typer.Option, rich_help_panel="Background responses")
_of_drafts = functools.partial(typer.Option, rich_help_panel="Drafts")


class ServeCommand(ConfiguredCommand):
    """``agentrt serve``, whose ``--ollama`` needs no value; to typer an option has one always or never."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line."""
        whole = []
        for given, following in itertools.pairwise([*args, "--"]):
            whole += [given, OLLAMA_ADDRESS] if given == "--ollama" and following[:1] == "-" else [given]
        return super().parse_args(ctx, whole)


def serve(
    model: Annotated[
        list[str] | None,
        _of_models(
            help="A folder with an OpenVINO model, a GGUF file, a pulled name, or nano for the demonstration "
            "model, which is the default. May be given several times: requests choose by name. The first "
            "model is loaded at once, the others by their first requests.",
            autocompletion=complete_model,
        ),
    ] = None,
    served_model_name: Annotated[
        list[str] | None,
        _of_models(
            help="A name of the model for requests, instead of its own; may be given several times. With "
            "several models: NAME=MODEL, where MODEL is a value of --model."
        ),
    ] = None,
    default_max_tokens: Annotated[
        int | None,
        _of_models(
            help="Tokens of an answer whose request has no max_tokens. By default as many as fit the model's "
            "context, or 16 in /v1/completions.",
            min=1,
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    uds: Uds = None,
    token_file: TokenFile = None,
    no_auth: NoAuth = False,
    cors_origin: CorsOrigins = None,
    ollama: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Address and access",
            metavar="[HOST:PORT]",
            help="Also answer Ollama's clients, at an address of their own. Without a value that is "
            f"Ollama's, {OLLAMA_ADDRESS}.",
            callback=listen_address,
        ),
    ] = None,
    memory_mib: Annotated[
        int,
        _of_models(
            help="Memory of the KV cache of each loaded model, besides the weights.",
            min=1,
            max=_MAX_MEMORY_MIB,
        ),
    ] = 256,
    memory_budget_mib: Annotated[
        int | None,
        _of_models(
            help="Memory of all loaded models together: weights and KV caches. Models that are not in use "
            "are unloaded for others. By default the memory that is available at the start.",
            min=1,
            max=_MAX_MEMORY_MIB,
        ),
    ] = None,
    idle_unload: Annotated[
        float | None,
        _of_models(
            help="Seconds without requests after which a model is unloaded. By default models stay loaded.",
            min=1,
            max=_YEAR_S,
        ),
    ] = None,
    drafts: Annotated[
        bool | None,
        _of_drafts(
            "--drafts/--no-drafts",
            help="Draft tokens from prompts, earlier answers and grammars, and verify several in one forward "
            "pass. By default where that changes no token. --no-drafts also leaves the history folder of the "
            "config file alone.",
        ),
    ] = None,
    history_folder: Annotated[
        Path | None,
        _of_drafts(
            help="Folder that keeps the answers of each app, as token ids, to draft later ones from after a "
            "restart, with --drafts. By default they are kept in memory only."
        ),
    ] = None,
    context_folder: Annotated[
        Path | None,
        _of_contexts(
            help="Folder that keeps the contexts of each app, also after a restart: texts, and what the "
            "model has computed for them. By default a folder of your own, and with --no-auth none."
        ),
    ] = None,
    no_context_folder: Annotated[bool, no_context_folder_option(rich_help_panel="Contexts")] = False,
    context_disk_mib: Annotated[
        int | None,
        _of_contexts(
            help=f"Disk space of each model's contexts in --context-folder. By default {MOST_MIB} in the "
            "folder of your own, and without limit in another.",
            min=1,
            max=_MAX_MEMORY_MIB,
        ),
    ] = None,
    context_app_mib: Annotated[
        int | None,
        _of_contexts(
            help="Disk space of each app's contexts of a model. By default without limit.",
            min=1,
            max=_MAX_MEMORY_MIB,
        ),
    ] = None,
    context_key: Annotated[
        str | None,
        _of_contexts(
            help="Encrypts --context-folder: a file with the key, which is created with the folder, or "
            "'keyring' for the keyring of the system."
        ),
    ] = None,
    contexts_per_app: Annotated[
        int,
        _of_contexts(
            help="Contexts that an app may make of a model. As many sessions and chains of stored responses "
            "are kept besides.",
            min=1,
            max=_MAX_CONTEXTS,
        ),
    ] = 256,
    max_context_tokens: Annotated[
        int | None,
        _of_contexts(
            help="Tokens of one context, prompts and answers together. By default what the model takes.",
            min=1,
        ),
    ] = None,
    context_compression: Annotated[
        float | None,
        _of_contexts(
            help="Bytes of stored contexts over those that they have at 8 bits a number, such as 0.5. By "
            "default they are stored as they are.",
            min=0.01,
            max=1,
        ),
    ] = None,
    context_tolerance: Annotated[
        float,
        _of_contexts(
            help="Share by which --context-compression may increase the model's perplexity.",
            min=0.0001,
            max=1,
        ),
    ] = 0.005,
    context_memory_mib: Annotated[
        int | None,
        _of_contexts(
            help="Memory, beside the KV cache, for contexts of each loaded model that it has no room for. By "
            "default, with --context-folder, up to 1024 and an eighth of what is free.",
            min=0,
            max=_MAX_MEMORY_MIB,
        ),
    ] = None,
    embedding_model: Annotated[
        str | None,
        _of_models(
            help="A folder with an OpenVINO embedding model, or a pulled name, for requests of embeddings."
        ),
    ] = None,
    embedding_pooling: Annotated[
        Literal["cls", "mean", "last"] | None,
        _of_models(
            help="How the embedding model's vectors of tokens become one. By default as the file "
            "1_Pooling/config.json in its folder says."
        ),
    ] = None,
    background_jobs: Annotated[
        int, _of_background(help="Background responses that are computed at once.", min=1, max=_MAX_CONTEXTS)
    ] = 4,
    background_jobs_per_app: Annotated[
        int,
        _of_background(
            help="Background responses of an app that have not ended. Further ones are refused.",
            min=1,
            max=_MAX_CONTEXTS,
        ),
    ] = 256,
    background_app_seconds: Annotated[
        float | None,
        _of_background(
            help="Seconds within a day for which background responses of an app may be computed. By default "
            "without limit.",
            min=1,
            max=_DAY_S,
        ),
    ] = None,
    background_on_battery: Annotated[
        bool, _of_background("--background-on-battery", help="Compute them on battery, too.")
    ] = False,
    background_max_load: Annotated[
        float,
        _of_background(
            help="Share of the processors that other programs may use while they are computed.",
            min=0.01,
            max=1,
        ),
    ] = 0.25,
    background_max_celsius: Annotated[
        float | None,
        _of_background(
            help="Temperature of a thermal zone or a processor above which they wait. By default any.",
            min=1,
            max=126,
        ),
    ] = None,
    drain: Drain = 30,
) -> None:
    """Serve models to OpenAI clients until Ctrl-C or SIGTERM.

    Requests need a token: that of agentrt config --init, or one that is created for this run and printed. A
    Unix socket needs none.
    """
    require_extra("serve")
    begin_serving()
    from agentrt.runtime import EmbeddingModel, ModelPool, PoolConfig, PooledModel, Pooling, RuntimeConfig
    from agentrt.runtime.pool.background.conditions import BackgroundConditions
    from agentrt.runtime.pool.background.config import BackgroundConfig
    from agentrt.runtime.serving.server import ServerConfig, bind, create_app, serve
    from agentrt.runtime.serving.server.app import add_ollama
    from agentrt.runtime.serving.server.ollama_listener import bind_ollama

    given = model or ["nano"]
    names = names_of_models(given, served_model_name or [])
    tokens, access = choose_tokens(token_file, no_auth, None if ollama else uds)  # all users reach a port
    config = ServerConfig(
        default_max_tokens=default_max_tokens,
        host=host,
        port=port,
        uds=uds,
        tokens=tokens,
        cors_origins=frozenset(cors_origin or ()),
        drain_s=drain,
    )
    own_folder = context_folder is None and not no_context_folder and not no_auth
    if own_folder:
        context_folder, context_disk_mib = own_context_folder(), context_disk_mib or MOST_MIB
    runtime_config = RuntimeConfig(
        memory_bytes=memory_mib * 2**20,
        drafts=drafts,
        history_folder=history_folder if drafts else None,
        context_folder=context_folder,
        context_disk_bytes=None if context_disk_mib is None else context_disk_mib * 2**20,
        context_app_bytes=None if context_app_mib is None else context_app_mib * 2**20,
        context_key=key_of(context_key),
        context_memory_bytes=None if context_memory_mib is None else context_memory_mib * 2**20,
        context_compression=context_compression,
        context_tolerance=context_tolerance,
        contexts_per_app=contexts_per_app,
        max_context_tokens=max_context_tokens,
    )
    background = BackgroundConfig(
        concurrent=background_jobs,
        jobs_per_app=background_jobs_per_app,
        seconds_per_app=background_app_seconds,
        conditions=BackgroundConditions(
            on_battery=background_on_battery,
            max_other_load=background_max_load,
            max_celsius=background_max_celsius,
        ),
    )
    budget = None if memory_budget_mib is None else memory_budget_mib * 2**20
    with serving(bind(config)) as listener, ExitStack() as bound:
        listeners = [listener]
        if ollama is not None:
            ollama_host, ollama_port = host_and_port(ollama)
            ollama_config = config.model_copy(update={"host": ollama_host, "port": ollama_port, "uds": None})
            listeners.append(bound.enter_context(bind_ollama(ollama_config, listener)))
        embedding = None
        if embedding_model is not None:
            say(f"opening {embedding_model}")
            pooling = None if embedding_pooling is None else Pooling(embedding_pooling)
            embedding = EmbeddingModel.open(embedding_model, pooling)
        models = [PooledModel.find(each, runtime_config, own) for each, own in zip(given, names, strict=True)]
        pool = ModelPool(
            models,
            PoolConfig(memory_budget_bytes=budget, idle_unload_s=idle_unload),
            open_contexts=keep_contexts if own_folder else PooledModel.open_contexts,
        )
        with pool:
            say(f"opening {given[0]}")
            with opening_bar() as show:
                pool.open_first(show)
            served = ", ".join(name for each in pool.models for name in each.names)
            address = origin_of(config, listener) or os.path.abspath(str(uds))

            def ready() -> None:
                tell_chat(_described(address, access, pool.models))
                announce(served, config, listener, access, page=True)
                if own_folder and any(each.context_store for each in pool.models):
                    say(f"contexts are kept in {context_folder}: {HOW_TO_SEE}")
                if ollama is not None:
                    say(f"Ollama's interface at {origin_of(ollama_config, listeners[1])}")

            app = create_app(pool, config, embedding, background)
            if ollama is not None:
                add_ollama(app, ollama_config, listeners[1])
            with found_by_chat() as tell_chat:
                serve(app, config, listeners, ready, say_waiting)


def _described(address: str, access: Access | None, models: Sequence[PooledModel]) -> dict[str, Any]:
    """Return what another program of this user needs to send requests."""
    from agentrt.runtime.model.directory import find_model

    return {
        "address": address,
        "token": access and access.token,
        "token_file": access and access.token_file and os.path.abspath(access.token_file),
        "models": [
            {
                "path": str(find_model(str(each.model)).resolve()),
                "names": each.names,
                "contexts": each.context_store and str(each.context_store.folder.resolve()),
            }
            for each in models
        ],
    }
