"""Figures 5 to 8 of SpecTools, drawn again from reports of the speculation and toolcache benches.

``python -m agentrt.bench.common.figures REPORT.json FOLDER`` writes them as SVG.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentrt.errors import InvalidRequestError

from .report import BenchReport, Table


def draw(report: BenchReport, folder: Path) -> list[Path]:
    """Draw the figures of a report of the speculation or toolcache bench into ``folder``; return the files.

    Raises:
        InvalidRequestError: the report has no such tables.
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        from agentrt.errors import MissingExtraError

        raise MissingExtraError("matplotlib", "bench") from error
    if report.bench not in _DRAWINGS:
        raise InvalidRequestError(
            "report", f"no figures of the bench {report.bench!r}. Use one of {[*_DRAWINGS]}."
        )
    written = []
    # The same report gives the same files: no dates, no random ids.
    with rc_context({"svg.hashsalt": "agentrt", "svg.fonttype": "none", "font.size": 9}):
        for name, drawing in _DRAWINGS[report.bench].items():
            figure = Figure(figsize=(5.2, 3.4), layout="constrained")
            drawing(figure.add_subplot(), report)
            figure.savefig(folder / name, metadata={"Date": None})
            written.append(folder / name)
    return written


def _table(report: BenchReport, title: str) -> Table:
    for table in report.tables:
        if table.title.startswith(title):
            return table
    raise InvalidRequestError(
        "report", f"no table {title!r} in it. Run: agentrt bench {report.bench} --json F"
    )


def _series(table: Table) -> dict[float, list[Sequence[Any]]]:
    series: dict[float, list[Sequence[Any]]] = {}
    for row in table.rows:
        series.setdefault(float(row[0] or 0), []).append(row)
    return series


def _throughput(axes: Any, report: BenchReport) -> None:
    for chance, rows in _series(_table(report, "samples a turn")).items():
        rates = [100 * row[2] for row in rows]
        axes.plot(rates, [row[3] for row in rows], "o-", markersize=4, label=f"{chance:.0%} a sample")
        for row, rate in zip(rows, rates, strict=True):
            axes.annotate(f"{row[1]}x", (rate, row[3]), textcoords="offset points", xytext=(3, 4), fontsize=7)
    axes.set(xlabel="claim rate, %", ylabel="more tokens per second")
    axes.set_title("Throughput by claim rate and samples a turn (SpecTools, Fig. 5)", fontsize=9)
    axes.legend(title="predictor is right")


def _time_saved(axes: Any, report: BenchReport) -> None:
    table = _table(report, "time saved by tool latency")
    latencies = [row[0] for row in table.rows]
    for place, column in enumerate(table.columns[1:], 1):
        label = column.removeprefix("saved % at ")
        axes.plot(latencies, [row[place] for row in table.rows], "o-", markersize=4, label=label)
    axes.set(xlabel="mean tool latency, s (the model takes 2 s a turn)", ylabel="time saved, %")
    axes.set_title("Time saved by tool latency, one sample a turn (SpecTools, Fig. 6)", fontsize=9)
    axes.legend(title="predictor is right")


def _cost(axes: Any, report: BenchReport) -> None:
    for chance, rows in _series(_table(report, "samples a turn")).items():
        costs = [row[6] for row in rows]
        axes.plot(costs, [row[4] for row in rows], "o-", markersize=4, label=f"{chance:.0%} a sample")
        for row, cost in zip(rows, costs, strict=True):
            axes.annotate(f"{row[1]}x", (cost, row[4]), textcoords="offset points", xytext=(3, 4), fontsize=7)
    axes.set(xlabel="added cost, % of the main model's", ylabel="time saved, %")
    axes.set_title("Time saved by added cost (SpecTools, Fig. 7)", fontsize=9)
    axes.legend(title="predictor is right")


def _engine_side(axes: Any, report: BenchReport) -> None:
    table = _table(report, "time a task")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    tools = list(dict.fromkeys(str(row["tools"]) for row in rows))
    sides = list(dict.fromkeys(str(row["side"]) for row in rows))[1:]  # the first one is what is saved from
    found = {(row["tools"], row["side"]): row for row in rows}
    saved = "time saved, % of vanilla"
    width = 0.8 / len(sides)
    for place, side in enumerate(sides):
        lefts = [number - 0.4 + (place + 0.5) * width for number in range(len(tools))]
        of_side: list[Any] = [found[tool, side] for tool in tools]
        medians = [row[saved] for row in of_side]
        spread = (
            [row[saved] - row[f"{saved} min"] for row in of_side],
            [row[f"{saved} max"] - row[saved] for row in of_side],
        )
        bars = axes.bar(lefts, medians, width * 0.95, yerr=spread, capsize=2, label=side)
        axes.bar_label(bars, fmt="%.1f", fontsize=7, label_type="center")
    axes.set_xticks(range(len(tools)), tools)
    axes.set(xlabel="tool latency", ylabel="time saved, % of vanilla")
    axes.set_title("Time saved by where speculation ends (SpecTools, Fig. 8)", fontsize=9)
    axes.legend()


_DRAWINGS: dict[str, dict[str, Callable[[Any, BenchReport], None]]] = {
    "speculation": {
        "figure-5-throughput.svg": _throughput,
        "figure-6-time-saved.svg": _time_saved,
        "figure-7-cost.svg": _cost,
    },
    "toolcache": {"figure-8-engine-side.svg": _engine_side},
}


if __name__ == "__main__":
    for path in draw(BenchReport.model_validate_json(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])):
        print(path)
