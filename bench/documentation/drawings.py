"""Figures of SpecTools (5 to 8), sd.npu (10, 13) and LLMS (9), drawn again from reports of the benches.

``python -m agentrt.bench.documentation.drawings REPORT.json FOLDER`` writes them as SVG.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentrt.errors import AgentRTError, InvalidRequestError, MissingExtraError

from ..common.estimates import Estimate
from ..common.report import BenchReport, Table


@contextmanager
def drawn(picture: Path, size: tuple[float, float] = (5.2, 3.4)) -> Iterator[Any]:
    """Yield a ``matplotlib.figure.Figure`` of this size in inches, and write it to ``picture``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "bench") from error
    # The same report gives the same files: no dates, no random ids.
    with rc_context({"svg.hashsalt": "agentrt", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        metadata = {"Date": None} if picture.suffix == ".svg" else None
        figure.savefig(picture, metadata=metadata, dpi=150)


def draw(report: BenchReport, folder: Path) -> list[Path]:
    """Draw the figures of a report into ``folder``; return the files.

    A report of a part of a bench has the tables of some.

    Raises:
        InvalidRequestError: there are no figures of such a bench, or the report has no table of any.
        MissingExtraError: matplotlib is not installed.
    """
    if report.bench not in _DRAWINGS:
        raise InvalidRequestError(
            "report", f"no figures of the bench {report.bench!r}. Use one of {[*_DRAWINGS]}."
        )
    pictures: list[Path] = []
    missing: InvalidRequestError | None = None
    for name, drawing in _DRAWINGS[report.bench].items():
        try:
            with drawn(folder / name) as figure:
                drawing(figure.add_subplot(), report)
            pictures.append(folder / name)
        except InvalidRequestError as error:
            missing = error
    if missing is not None and not pictures:
        raise missing
    return pictures


def find_table(report: BenchReport, title: str) -> Table:
    """Return the first table whose title begins so.

    Raises:
        InvalidRequestError: there is none.
    """
    for table in report.tables:
        if table.title.startswith(title):
            return table
    raise InvalidRequestError(
        "report", f"no table {title!r} in it. Run: agentrt bench {report.bench} --json F"
    )


def _rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _bars(
    axes: Any, place: int, of: int, values: Sequence[Any], label: str, spread: Any = None, total: float = 0.8
) -> Any:
    """Draw one of several series of bars beside each other; where there is no value there is no bar."""
    width = total / of
    shown = [(at, value) for at, value in enumerate(values) if value is not None]
    lefts = [at - total / 2 + (place + 0.5) * width for at, _ in shown]
    heights = [value for _, value in shown]
    return axes.bar(lefts, heights, width * 0.95, yerr=spread, capsize=2, label=label)


def _series(table: Table) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each kind of drafts, the table's first column, as mappings from column to cell."""
    series: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(table):
        series.setdefault(str(row[table.columns[0]]), []).append(row)
    return series


def _line(axes: Any, rows: Sequence[Mapping[str, Any]], x: str, y: str, label: str) -> None:
    """Draw values as a line and their 90 % intervals as bars."""
    xs = [_value(row[x]) for row in rows]
    values = [_value(row[y]) for row in rows]
    axes.errorbar(
        xs, values, yerr=reach([row[y] for row in rows]), fmt="o-", markersize=4, capsize=2, label=label
    )


def _value(cell: Any) -> Any:
    return cell.value if isinstance(cell, Estimate) else cell


def reach(cells: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return how far the intervals reach below and above the values; 0 without one."""
    ends = [
        (0.0, 0.0)
        if not isinstance(each, Estimate) or each.low is None or each.high is None
        else (each.value - each.low, each.high - each.value)
        for each in cells
    ]
    return [below for below, _ in ends], [above for _, above in ends]


def _annotate_samples(axes: Any, rows: Sequence[Mapping[str, Any]], x: str, y: str) -> None:
    for row in rows:
        place = (_value(row[x]), _value(row[y]))
        axes.annotate(f"{row['samples']}x", place, textcoords="offset points", xytext=(3, 4), fontsize=7)


_BY_LATENCY: Final = "time saved by tool latency"
"""What the titles of all tables of Figure 6 begin with: drafts are simulated, of patterns, or of models."""


def _throughput(axes: Any, report: BenchReport) -> None:
    for drafts, rows in _series(find_table(report, "samples a turn")).items():
        _line(axes, rows, "claim rate", "more tokens/s", drafts)
        _annotate_samples(axes, rows, "claim rate", "more tokens/s")
    axes.set(xlabel="claim rate", ylabel="more tokens per second, mean of the agents")
    axes.set_title("Throughput by claim rate and samples a turn (SpecTools, Fig. 5)", fontsize=9)
    axes.legend(title="drafts", fontsize=7)


def _time_saved(axes: Any, report: BenchReport) -> None:
    find_table(report, _BY_LATENCY)
    for table in report.tables:
        if table.title.startswith(_BY_LATENCY):
            for drafts, rows in _series(table).items():
                _line(axes, rows, "tool s", "saved %", drafts)
    axes.set(xlabel="mean tool latency, s", ylabel="time saved, %")
    axes.set_title("Time saved by tool latency (SpecTools, Fig. 6)", fontsize=9)
    axes.legend(title="drafts", fontsize=7)


def _cost(axes: Any, report: BenchReport) -> None:
    for drafts, rows in _series(find_table(report, "samples a turn")).items():
        _line(axes, rows, "added cost %", "saved %", drafts)
        _annotate_samples(axes, rows, "added cost %", "saved %")
    axes.set(xlabel="added cost, % of the main model's", ylabel="time saved, %")
    axes.set_title("Time saved by added cost (SpecTools, Fig. 7)", fontsize=9)
    axes.legend(title="drafts", fontsize=7)


def _engine_side(axes: Any, report: BenchReport) -> None:
    rows = _rows(find_table(report, "time a task"))
    tools = list(dict.fromkeys(str(row["tools"]) for row in rows))
    sides = list(dict.fromkeys(str(row["side"]) for row in rows))[1:]  # the first one is what is saved from
    found = {(row["tools"], row["side"]): row for row in rows}
    saved = "time saved, % of vanilla"
    for place, side in enumerate(sides):
        of_side: list[Any] = [found[tool, side] for tool in tools]
        cells = [row[saved] for row in of_side]
        bars = _bars(axes, place, len(sides), list(map(_value, cells)), side, reach(cells))
        axes.bar_label(bars, fmt="%.1f", fontsize=7, label_type="center")
    axes.set_xticks(range(len(tools)), tools)
    axes.set(xlabel="tool latency", ylabel="time saved, % of vanilla")
    axes.set_title("Time saved by where speculation ends (SpecTools, Fig. 8)", fontsize=9)
    axes.legend()


def _sides(axes: Any, report: BenchReport) -> None:
    """Draw Figure 8 for given models, whose tools take a multiple of the main model's time."""
    sides: dict[str, list[dict[str, Any]]] = {}
    for rows in _series(find_table(report, "time saved by where speculation ends")).values():
        for row in rows:
            sides.setdefault(f"{row['side']}, {row['drafts']}", []).append(row)
    for side, rows in sides.items():
        _line(axes, rows, "tool s", "saved %", side)
    axes.set(xlabel="tool latency, s", ylabel="time saved, %")
    axes.set_title("Time saved by where speculation ends (SpecTools, Fig. 8)", fontsize=9)
    axes.legend(fontsize=7)


def _drafting_latency(axes: Any, report: BenchReport) -> None:
    table = find_table(report, "ms a token by set")
    sides = table.columns[2:-1]
    for place, side in enumerate(sides):
        values = [_value(row[side]) for row in _rows(table)]
        _bars(axes, place, len(sides), values, side, total=0.85)
    axes.set_xticks(range(len(table.rows)), [str(row[0]) for row in table.rows], rotation=45, fontsize=7)
    axes.set(ylabel="ms a token")
    axes.set_title("Decoding by set and drafts (sd.npu, Fig. 10)", fontsize=9)
    axes.legend(fontsize=6, ncols=2)


def _drafting_breakdown(axes: Any, report: BenchReport) -> None:
    table = find_table(report, "a request's time in ms")
    labels = [f"{row[0]}, {row[1]}" for row in table.rows]
    begins = [0.0] * len(labels)
    for part in ("prefill", "decode", "drafting"):
        values: list[Any] = [_value(row[table.columns.index(part)]) for row in table.rows]
        axes.barh(labels, values, left=begins, label=part)
        begins = [begin + value for begin, value in zip(begins, values, strict=True)]
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=6)
    axes.set(xlabel="ms a request")
    axes.set_title("Where the time of a request goes (sd.npu, Fig. 13)", fontsize=9)
    axes.legend(fontsize=7)


def _switching_latency(axes: Any, report: BenchReport) -> None:
    rows = _rows(find_table(report, "switching latency in ms (LLMS, Fig. 9)"))
    for side in dict.fromkeys(str(row["side"]) for row in rows):
        points = [row for row in rows if (row["side"], row["pattern"]) == (side, "random")]
        _line(axes, points, "contexts", "mean", side)
    axes.set_yscale("symlog", linthresh=1)
    axes.set(xlabel="active contexts", ylabel="mean switching latency, ms")
    axes.set_title("Switching latency of random traces (LLMS, Fig. 9)", fontsize=9)
    axes.legend(fontsize=7)


def _restart(axes: Any, report: BenchReport) -> None:
    table = find_table(report, "time to the first token after a restart")
    rows = _rows(table)
    ways = [
        column for column in table.columns[2:] if column.startswith(("restored", "computed", "llama.cpp"))
    ]
    ways.remove("restored tokens")
    for place, way in enumerate(ways):
        bars = _bars(axes, place, len(ways), [_value(row[way]) for row in rows], way)
        axes.bar_label(bars, fmt="%.2g", fontsize=6)
    axes.set_xticks(range(len(rows)), [f"{row['tokens']} tokens,\nfrom {row['from']}" for row in rows])
    axes.tick_params(axis="x", labelsize=7)
    axes.set_yscale("log")
    axes.set(ylabel="s to the first token")
    axes.set_title("After a restart", fontsize=9)
    axes.legend(fontsize=7)


def _soak(axes: Any, report: BenchReport) -> None:
    table = find_table(report, "soak")
    seconds = [row[0] for row in table.rows]
    beside = axes.twinx()
    for column in table.columns[1:]:
        place = table.columns.index(column)
        drawn, style = (axes, "-") if column.endswith("MB") else (beside, ":")
        drawn.plot(seconds, [row[place] for row in table.rows], style, color=f"C{place}", label=column)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="s of mixed load", ylabel="MB")
    axes.set_title("What the server holds in the soak", fontsize=9)
    axes.figure.legend(fontsize=7, loc="outside lower center", ncols=4)


_DRAWINGS: dict[str, dict[str, Callable[[Any, BenchReport], None]]] = {
    "attack": {"soak.svg": _soak},
    "speculation": {
        "figure-5-throughput.svg": _throughput,
        "figure-6-time-saved.svg": _time_saved,
        "figure-7-cost.svg": _cost,
    },
    # With real main and draft models: in files of their own, so that they do not replace simulated ones.
    "speculation_models": {
        "real-models-figure-5-throughput.svg": _throughput,
        "real-models-figure-6-time-saved.svg": _time_saved,
        "real-models-figure-7-cost.svg": _cost,
        "real-models-figure-8-sides.svg": _sides,
    },
    "toolcache": {"figure-8-engine-side.svg": _engine_side},
    "context": {"llms-figure-9.svg": _switching_latency, "restart.svg": _restart},
    "context_restarts": {"restart.svg": _restart},
    "context_traces": {"llms-figure-9.svg": _switching_latency},
    "drafting": {
        "sd-npu-figure-10.svg": _drafting_latency,
        "sd-npu-figure-13.svg": _drafting_breakdown,
    },
}

DRAWN: Final = frozenset(_DRAWINGS)
"""The reports of which there are figures."""


def main(arguments: Sequence[str]) -> None:
    """Draw the figures of the report in the first argument into the folder of the second.

    Raises:
        SystemExit: an argument is missing, or the report cannot be read or drawn; the reason is on standard
            error.
    """
    parser = argparse.ArgumentParser(prog="python -m agentrt.bench.documentation.drawings")
    parser.add_argument("report", type=Path, help="REPORT.json as `agentrt bench NAME --json` writes it")
    parser.add_argument("folder", type=Path, help="where the pictures are written")
    given = parser.parse_args(arguments)
    try:
        for path in draw(BenchReport.model_validate_json(given.report.read_bytes()), given.folder):
            print(path)
    except (AgentRTError, OSError, ValueError) as error:
        parser.error(f"cannot draw {given.report} into {given.folder}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
