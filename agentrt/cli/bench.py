"""``agentrt bench NAME``: measure one part of agentrt on this machine.

The bench ``NAME`` is the function ``run`` of :mod:`agentrt.bench.NAME.main`.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..concurrency.interrupts import interrupts_deferred
from ..errors import WorkloadNotFoundError
from ..extras import needs_extra, require_extra
from .output import JsonFile, output_console, say, table_of, write_errors

if TYPE_CHECKING:
    from agentrt.bench.common.estimates import Estimate
    from agentrt.bench.common.report import BenchReport


class BenchName(enum.StrEnum):
    """The benches; each has a package of its name in :mod:`agentrt.bench`."""

    ASSISTANT = "assistant"
    CONTEXT = "context"
    DRAFTING = "drafting"
    ENGINE = "engine"
    GATEWAY = "gateway"
    MODELS = "models"
    OUTSIDE = "outside"
    PAGE = "page"
    SCHEDULER = "scheduler"
    SPECULATION = "speculation"
    TOOLCACHE = "toolcache"
    WIRE = "wire"


NEEDED_EXTRAS: dict[BenchName, tuple[str, ...]] = {
    BenchName.ASSISTANT: ("demo",),
    BenchName.CONTEXT: ("bench",),
    BenchName.DRAFTING: ("bench",),
    BenchName.ENGINE: ("serve",),
    BenchName.GATEWAY: ("serve", "redis"),
    BenchName.MODELS: ("bench",),
    BenchName.OUTSIDE: ("bench",),
    BenchName.PAGE: ("serve", "browser"),
    BenchName.SCHEDULER: ("runtime",),
    BenchName.SPECULATION: ("bench",),
    BenchName.TOOLCACHE: ("serve", "openai"),
    BenchName.WIRE: ("serve",),
}
"""What a bench imports. It is asked for before the bench begins its work."""

_BENCHES_WITH: dict[str, set[BenchName]] = {
    "--agentperf": {BenchName.OUTSIDE},
    "--draft": {BenchName.DRAFTING, BenchName.SPECULATION},
    "--model": {
        *(BenchName.ASSISTANT, BenchName.CONTEXT, BenchName.DRAFTING, BenchName.ENGINE),
        *(BenchName.MODELS, BenchName.OUTSIDE, BenchName.SCHEDULER, BenchName.SPECULATION),
        *(BenchName.TOOLCACHE, BenchName.WIRE),
    },
    "--part": {BenchName.CONTEXT, BenchName.SPECULATION},
    "--peer": {BenchName.SCHEDULER},
    "--seed": {BenchName.SCHEDULER, BenchName.SPECULATION, BenchName.TOOLCACHE},
    "--seeds": {BenchName.SCHEDULER, BenchName.SPECULATION, BenchName.TOOLCACHE},
}
"""The options that not all benches take."""


def _check_workloads(folder: Path | None) -> Path | None:
    """Refuse a folder without any workload before the work begins."""
    if folder is not None and not any(folder.glob("*.jsonl")):
        raise WorkloadNotFoundError(f"{folder} holds no *.jsonl file. Name the folder of the workloads.")
    return folder


def bench(
    name: Annotated[BenchName, typer.Argument(help="What to measure.")],
    json: JsonFile = None,
    workloads: Annotated[
        Path | None,
        typer.Option(
            help="A folder with recorded workloads.", exists=True, file_okay=False, callback=_check_workloads
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="The URL of a vLLM server to compare the scheduler with: docs/scheduling-figures.md says "
            "how to start it. Can be given several times."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="The model to measure: a GGUF file, an OpenVINO directory, a pulled name, or nano. Figures "
            "that do not depend on it are left out. Bench models takes several, and context for compression."
        ),
    ] = None,
    draft: Annotated[
        list[str] | None,
        typer.Option(help="A draft model for --model, named alike. Can be given several times."),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="A part of bench context or speculation to measure alone, such as restarts. Can be given "
            "several times."
        ),
    ] = None,
    agentperf: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON",
            help="Install agentperf-local for bench outside, from PyPI and npm in the user's cache folder, "
            "with this Python 3.12 or later: a path, or a name such as python3.12.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many times to repeat, each time with another seed.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The first seed, 0 by default.")] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Measure with less work: two minutes, or five for a model of 0.5 B."),
    ] = False,
) -> None:
    """Measure one part of agentrt: progress goes to standard error, figures to standard output.

    The bench NAME is agentrt.bench.NAME.main.
    """
    given = {
        "--agentperf": agentperf,
        "--draft": draft,
        "--model": model,
        "--part": part,
        "--peer": peer,
        "--seed": seed,
        "--seeds": seeds,
    }
    _refuse_options_of_others(name, [option for option, value in given.items() if value is not None])
    if name is BenchName.SPECULATION and (model is None) is not (draft is None):
        raise typer.BadParameter("both are needed, or neither", param_hint="--model and --draft")
    if name is BenchName.SPECULATION and part and (model is None) is not ("samples" not in part):
        raise typer.BadParameter("samples is the part for --model, and the only one", param_hint="--part")
    if draft and model is None:
        raise typer.BadParameter("needs --model", param_hint="--draft")
    for extra in NEEDED_EXTRAS[name]:
        require_extra(extra)
    options: dict[str, Any] = {}
    if peer:
        require_extra("bench")
        options["peers"] = peer
    if name in _BENCHES_WITH["--seeds"]:
        from agentrt.bench.common.report import Seeds

        options["seeds"] = Seeds(seeds, seed or 0)
    several = name in (BenchName.CONTEXT, BenchName.MODELS)
    if model and model[1:] and not several:
        raise typer.BadParameter("several are for benches context and models only", param_hint="--model")
    if model:
        options |= {"models": model} if several else {"model": model[0]}
    if draft is not None:
        options["drafts"] = draft
    if agentperf is not None:
        options["agentperf"] = agentperf
    if part:
        options["parts"] = _parts(name, part)
    with needs_extra("bench"):
        with interrupts_deferred():
            module = importlib.import_module(f"agentrt.bench.{name}.main")
        report: BenchReport = module.run(quick=quick, workloads=workloads, progress=say, **options)
    _print(report)
    if json is not None:
        with write_errors(json):
            report.write(json)


def _parts(bench: BenchName, names: Iterable[str]) -> list[enum.StrEnum]:
    from agentrt.bench.common.parts import parts_of

    try:
        return parts_of(bench, names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--part") from None


def _refuse_options_of_others(name: BenchName, given: Iterable[str]) -> None:
    for option in given:
        if name not in _BENCHES_WITH[option]:
            only = ", ".join(sorted(_BENCHES_WITH[option]))
            raise typer.BadParameter(f"is an option of bench {only} only", param_hint=option)


def _print(report: BenchReport) -> None:
    console = output_console()
    machine = report.machine
    console.print(f"{machine.cpu}, {machine.usable_cores} cores, {machine.operating_system}", highlight=False)
    for table in report.tables:
        rows = [["" if cell is None else _shown(cell) for cell in row] for row in table.rows]
        console.print(table_of(table.title, table.columns, rows))
    figures = [(name, _number(each.value), _interval(each)) for name, each in report.figures.items()]
    console.print(table_of(f"bench {report.bench}", ("figure", "value", "90 % interval"), figures))
    console.print(report.method, highlight=False)


def _shown(cell: str | float | Estimate) -> str:
    if isinstance(cell, str | int | float):
        return _number(cell)
    return f"{_number(cell.value)} ({_interval(cell)})" if cell.has_interval else _number(cell.value)


def _interval(found: Estimate) -> str:
    interval = found.interval(_number)
    return interval if found.samples < 2 else f"{interval}, n = {found.samples}"


def _number(cell: str | float) -> str:
    return f"{cell:,.4g}" if isinstance(cell, float) else str(cell)
