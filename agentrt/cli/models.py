"""``agentrt models``: list the converted GGUF files in the cache, and remove them; recommend models."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from ..extras import require_extra


def models(
    remove: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Delete these; may be given several times.")
    ] = None,
    remove_all: Annotated[bool, typer.Option("--remove-all", help="Delete all of them.")] = False,
    recommended: Annotated[
        bool, typer.Option("--recommended", help="List well-known models to pull instead.")
    ] = False,
) -> None:
    """List the GGUF files that were converted when they were first opened, or delete conversions."""
    if recommended:
        _print_recommended()
        return
    require_extra("runtime")
    from rich.console import Console
    from rich.table import Table

    from agentrt.runtime.gguf.cache import cached_models, default_cache_folder, remove_cached_model

    console = Console(highlight=False)
    cached = cached_models()
    unknown = set(remove or ()) - {model.converted_from for model in cached}
    if unknown:
        raise typer.BadParameter(
            f"no converted model is named {', '.join(sorted(unknown))}. Run agentrt models to see the names.",
            param_hint="--remove",
        )
    for model in cached:
        if remove_all or model.converted_from in (remove or ()):
            remove_cached_model(model)
            console.print(
                f"removed {model.converted_from} ({_size(model.size)})", markup=False, soft_wrap=True
            )
    if remove or remove_all:
        return
    if not cached:
        console.print(
            f"No GGUF file has been converted in {default_cache_folder()}.", markup=False, soft_wrap=True
        )
        return
    table = Table("model", "size", "last opened", box=None)
    for model in cached:
        opened = dt.datetime.fromtimestamp(model.used).isoformat(" ", "minutes")
        table.add_row(model.converted_from, _size(model.size), opened)
    console.print(table)
    console.print(f"in {default_cache_folder()}", markup=False, soft_wrap=True)


def _print_recommended() -> None:
    """Print each recommended model with the command that downloads it."""
    from rich.console import Console
    from rich.table import Table

    from agentrt.runtime.hub.recommended import RECOMMENDED

    console = Console(highlight=False)
    table = Table("name", "size", "licence", "good for", box=None)
    table.columns[0].no_wrap = True
    for model in RECOMMENDED:
        table.add_row(model.name, f"{model.gigabytes:.1f} GB", model.license, model.good_for)
    console.print(table)
    console.print("Download one: agentrt pull NAME. The name then works wherever a model is named.")


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
