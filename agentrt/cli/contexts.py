"""``agentrt contexts``: what is kept of apps on disk, and its deletion."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ContextNotFoundError, ContextStoreError
from ..extras import require_extra
from ..own_files import OwnFileError
from .config_file import ConfigFile, config_path
from .kept_contexts import key_of, own_context_folder
from .output import output_console, size_text
from .running_server import client_of, running_server, tokens_of

if TYPE_CHECKING:
    from rich.console import Console

    from agentrt.runtime.contexts.stored import KeptContext
    from agentrt.runtime.kv.store.folder import KeySource


def contexts(
    context: typer.Context,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="CONTEXT", help="Delete these; may be given several times.")
    ] = None,
    remove_app: Annotated[
        list[str] | None,
        typer.Option(
            metavar="APP", help="Delete all that is kept of these apps; may be given several times."
        ),
    ] = None,
    remove_all: Annotated[bool, typer.Option("--remove-all", help="Delete all that is kept.")] = False,
    context_folder: Annotated[
        Path | None,
        typer.Option(
            help="The folder. By default that of agentrt serve: of its config file, or the one of your own."
        ),
    ] = None,
    context_key: Annotated[
        str | None,
        typer.Option(help="The key of the folder, as agentrt serve takes it; by default that of its file."),
    ] = None,
) -> None:
    """List the contexts that are kept on disk, or delete them, also while agentrt serve has them open."""
    require_extra("runtime")
    from agentrt.runtime.contexts.opening import key_source
    from agentrt.runtime.contexts.stored import kept_contexts

    served = _settings_of_serve(context)
    folder: Path = context_folder or served.get("context_folder") or own_context_folder()
    key = key_source(key_of(context_key or served.get("context_key")))
    kept = kept_contexts(folder, key)
    console = output_console(highlight=False, markup=False, soft_wrap=True)
    if not (remove or remove_app or remove_all):
        _list(console, folder, kept)
        return
    apps = {each.app for each in kept} if remove_all else {*(remove_app or ())}
    wanted = [each for each in kept if each.app in apps or each.id in (remove or ())]
    unknown = {*apps, *(remove or ())} - {name for each in wanted for name in (each.app, each.id)}
    if unknown:
        raise typer.BadParameter(
            f"nothing is kept of {', '.join(sorted(unknown))}. Run agentrt contexts to see what is.",
            param_hint="--remove-app" if unknown <= {*(remove_app or ())} else "--remove",
        )
    _remove(wanted, apps, key)
    console.print(f"removed {_number(wanted)} ({size_text(sum(each.size for each in wanted))})")


def _settings_of_serve(context: typer.Context) -> dict[str, Any]:
    file = ConfigFile.read(config_path())
    if file is None:
        return {}
    values: dict[str, Any] = getattr(context.find_root().command, "commands", {})["serve"].values_of(file)
    return values


def _list(console: Console, folder: Path, kept: Sequence[KeptContext]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not kept:
        console.print(f"No context is kept in {folder}.")
        return
    for model, found in groupby(kept, lambda each: each.folder):
        of_model = sorted(found, key=lambda each: (each.app, -each.used))
        table = Table("app", "context", "kind", "messages", "tokens", "size", "last used", box=None)
        for each in of_model:
            used = dt.datetime.fromtimestamp(each.used).isoformat(" ", "minutes")
            kind = each.kind if each.session is None else f"{each.kind} {each.session}"
            counts = ("" if count is None else f"{count}" for count in (each.messages, each.tokens))
            table.add_row(Text(each.app), each.id, Text(kind), *counts, size_text(each.size), used)
        console.print(model.name)
        console.print(table)
    console.print(f"in {folder}: {_number(kept)}")


def _remove(wanted: Sequence[KeptContext], apps: Collection[str], key: KeySource | None) -> None:
    """Delete contexts; of these apps all that is kept.

    Raises:
        ContextStoreError: some cannot be deleted, and are still there.
    """
    from agentrt.runtime.contexts.stored import delete_kept

    done = set()
    for each in wanted:
        id = None if each.app in apps else each.id
        if (each.folder, each.app, id) in done:
            continue
        done.add((each.folder, each.app, id))
        with suppress(ContextNotFoundError):  # deleted meanwhile
            if not delete_kept(each.folder, key, each.app, id):
                _delete_in_server(each, id)


def _delete_in_server(context: KeptContext, id: str | None) -> None:
    """Have the running server delete a context, or all that is kept of its app.

    Raises:
        ContextStoreError: the server does not use its folder, does not know the app, or cannot delete it.
    """
    from agentrt.runtime.contexts.context import ContextKind

    if id is not None and context.kind not in set(ContextKind):
        raise ContextStoreError(
            f"agentrt serve deletes {id} only with all that is kept of {context.app!r}. Use --remove-app, or "
            "end the server before."
        )
    again = "End it, and repeat this."
    server = running_server()
    folders = () if server is None else [model.get("contexts") for model in server["models"]]
    if server is None or str(context.folder.resolve()) not in folders:
        raise ContextStoreError(
            f"the contexts in {context.folder} are in use by a program that cannot be asked to delete them. "
            f"{again}"
        )
    require_extra("gateway")
    import httpx

    try:
        tokens = tokens_of(server)
        if context.app not in tokens:
            raise ContextStoreError(
                f"agentrt serve uses the contexts in {context.folder}, and has no token of the app "
                f"{context.app!r} any more. {again}"
            )
        with client_of(server, tokens[context.app]) as client:
            answer = client.delete("/v1/contexts" if id is None else f"/v1/contexts/{id}")
        reason = "" if answer.is_success or answer.status_code == 404 else answer.json()["error"]["message"]
    except (httpx.HTTPError, OwnFileError, ValueError) as error:
        reason = str(error) or type(error).__name__
    if reason:
        raise ContextStoreError(
            f"agentrt serve, which uses the contexts in {context.folder}, has not deleted them ({reason}). "
            f"{again}"
        )


def _number(kept: Sequence[KeptContext]) -> str:
    return f"{len(kept)} context{'s' * (len(kept) != 1)}"
