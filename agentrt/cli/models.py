"""``agentrt models`` and ``agentrt pull``: models on this machine, and their download."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigurationError
from ..extras import require_extra
from .output import output_console, size_text

if TYPE_CHECKING:
    from rich.console import Console

    from agentrt.runtime.model.gguf.cache import CachedModel


def models(
    remove: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Delete these; may be given several times.")
    ] = None,
    remove_all: Annotated[bool, typer.Option("--remove-all", help="Delete all of them.")] = False,
    recommended: Annotated[
        bool, typer.Option("--recommended", help="List well-known models to pull instead.")
    ] = False,
) -> None:
    """List pulled models, and GGUF files that were converted when they were first opened, or delete them."""
    console = output_console(highlight=False, markup=False, soft_wrap=True)
    if recommended:
        if remove or remove_all:
            raise typer.BadParameter(
                "it only lists models. Leave it out to delete.", param_hint="--recommended"
            )
        _print_recommended(console)
        return
    require_extra("runtime")
    try:
        if remove or remove_all:
            _remove(console, None if remove_all else set(remove or ()))
        else:
            _list(console)
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename} cannot be {'deleted' if remove or remove_all else 'read'} ({error.strerror}). "
            "Check its permissions, and end programs that have it open."
        ) from error


def pull(
    name: Annotated[
        str,
        typer.Argument(
            help="OWNER/NAME (an OpenVINO model on the Hugging Face hub), OWNER/NAME:QUANTISATION (a GGUF "
            "file), or an https address."
        ),
    ],
    sha256: Annotated[
        str | None, typer.Option(help="The digest that a file from an address must have.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit of the repository.")] = None,
) -> None:
    """Download a model. Its name can then be given wherever a model is named."""
    require_extra("hub")
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from agentrt.runtime.model.hub.pull import pull_model

    lines = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=lines, transient=True)
    task = bar.add_task("download")

    def say(line: str) -> None:
        lines.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(done: int, total: int | None) -> None:
        bar.start()  # not before: each step of a bar of the hub's library would be a line above it
        bar.update(task, completed=done, total=total)

    try:
        path = pull_model(name, sha256=sha256, revision=revision, progress=show, say=say)
    finally:
        if bar.live.is_started:
            bar.stop()
    output_console().print(f"{path}\nTry it: agentrt chat --model {name}", highlight=False, soft_wrap=True)


def _list(console: Console) -> None:
    """Print the pulled models with their paths, and the converted files."""
    from rich.table import Table
    from rich.text import Text

    from agentrt.runtime.model.gguf.cache import cached_models, remove_interrupted
    from agentrt.runtime.model.hub.pulled import models_folder, pulled_models

    remove_interrupted()
    pulled, cached = pulled_models(), cached_models()
    if pulled:
        console.print("pulled")
    for name, path in pulled.items():
        console.print(f"  {name}\n    {path}")
    if cached:
        table = Table("converted from", "size", "last opened", box=None)
        for model in cached:
            opened = dt.datetime.fromtimestamp(model.used).isoformat(" ", "minutes")
            table.add_row(Text(model.converted_from), size_text(model.size), opened)
        console.print(table)
        console.print(f"in {models_folder()}")
    if not pulled and not cached:
        console.print(f"No model was pulled, and no GGUF file has been converted in {models_folder()}.")


def _remove(console: Console, names: set[str] | None) -> None:
    """Delete the models of these names, pulled or converted; None deletes all."""
    from agentrt.runtime.model.gguf.cache import cached_models
    from agentrt.runtime.model.hub.pulled import pulled_models

    pulled, cached = pulled_models(), cached_models()
    known = {*pulled, *(model.converted_from for model in cached)}
    unknown = (names or set()) - known
    if unknown:
        raise typer.BadParameter(
            f"no pulled or converted model is named {', '.join(sorted(unknown))}. Run agentrt models to see "
            "the names.",
            param_hint="--remove",
        )
    wanted = known if names is None else names
    _remove_converted(console, (model for model in cached if model.converted_from in wanted))
    _remove_pulled(console, (name for name in pulled if name in wanted))


def _remove_converted(console: Console, models: Iterable[CachedModel]) -> None:
    from agentrt.runtime.model.gguf.cache import remove_cached_model

    for model in models:
        remove_cached_model(model)
        console.print(f"removed {model.converted_from} ({size_text(model.size)})")


def _remove_pulled(console: Console, names: Iterable[str]) -> None:
    """Forget these names; say how to delete what stays in the hub's cache."""
    from agentrt.runtime.model.hub.names import HubName, parse_name
    from agentrt.runtime.model.hub.pulled import remove_pulled

    for name in names:
        remove_pulled(name)
        found, kept = parse_name(name), ""
        if isinstance(found, HubName):
            kept = (
                "; its files stay in the hub's cache, which other programs share. Delete them: "
                f"hf cache rm model/{found.repository}"
            )
        console.print(f"removed {name}{kept}")


def _print_recommended(console: Console) -> None:
    """Print each recommended model and how to download it. Names have a line of their own: they are long."""
    from agentrt.runtime.model.hub.recommended import RECOMMENDED

    for model in RECOMMENDED:
        console.print(f"{model.name}\n    {model.gigabytes:.1f} GB, {model.license}: {model.good_for}")
    console.print("Download one: agentrt pull NAME. The name then works wherever a model is named.")
