"""Draws a trace like Fig. 4 of Agent.xpu, and its Figures 6 and 7 from a report.

``python -m agentrt.bench.documentation.timeline TRACE.json PICTURE`` draws a trace, as ``.svg`` or ``.png``,
``… REPORT.json FOLDER`` Figures 6 and 7, and ``… figure-4 FOLDER`` a simulated Fig. 4.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agentrt.errors import AgentRTError

from ..common.report import BenchReport
from ..scheduler.simulated import figure4
from .drawings import drawn, find_table, reach

_COLOURS: Final = {
    ("reactive", "prefill"): "#c0392b",
    ("reactive", "decode"): "#e8998d",
    ("reactive", "mixed"): "#d76b5e",
    ("proactive", "prefill"): "#2c5f8a",
    ("proactive", "decode"): "#9dbcd4",
    ("proactive", "mixed"): "#6490b5",
}


def draw_trace(trace: Mapping[str, Any], picture: Path) -> None:
    """Draw the result of :meth:`Trace.to_chrome`: a lane for each XPU, a bar for each kernel.

    Bars of interrupted kernels are empty, those of promoted requests hatched.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    lanes = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    order = sorted(lanes)
    with drawn(picture, (9, 0.9 + 0.7 * max(1, len(order)))) as figure:
        axes, shown = figure.add_subplot(), set[str]()
        for ((who, stage), colour), interrupted, promoted in itertools.product(
            _COLOURS.items(), (False, True), (False, True)
        ):
            name = f"{who} {stage}" + ", interrupted" * interrupted + ", promoted" * promoted
            style: dict[str, Any] = {"facecolors": colour, "linewidth": 0}
            if interrupted:
                style = {"facecolors": "none", "edgecolors": colour, "linewidth": 1}
            if promoted:
                style |= {"hatch": "////", "edgecolors": colour if interrupted else "white"}
            for lane, track in enumerate(order):
                bars = [
                    (event["ts"] / 1e3, event["dur"] / 1e3)
                    for event in events
                    if event["tid"] == track
                    and event["name"].startswith(f"{who} {stage} ")
                    and event["args"].get("interrupted", False) is interrupted
                    and event["args"].get("promoted", False) is promoted
                ]
                if bars:
                    label = None if name in shown else name
                    shown.add(name)
                    axes.broken_barh(bars, (lane - 0.35, 0.7), label=label, **style)
        axes.set_yticks(range(len(order)), [lanes[track] for track in order])
        axes.invert_yaxis()
        axes.set_xlabel("ms")
        if shown:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.35), ncols=len(shown), frameon=False)


def draw_figures(report: BenchReport, folder: Path) -> list[Path]:
    """Draw Figures 6 and 7 of Agent.xpu from a report of the scheduler bench; return the files.

    Fig. 6 has the highest rates, Fig. 7 median latencies, dotted their means; bars are 90 % intervals.

    Raises:
        InvalidRequestError: the report is another bench's.
        MissingExtraError: matplotlib is not installed.
    """
    highest, latencies = find_table(report, "Fig. 6"), find_table(report, "Fig. 7")
    written = [folder / "agent-xpu-figure-6.svg", folder / "agent-xpu-figure-7.svg"]
    with drawn(written[0], (9, 3.3)) as figure:
        _draw_rates(figure.add_subplot(), highest.rows)
    panels = _by(latencies.rows, 0)
    with drawn(written[1], (3.3 * len(panels), 3.3)) as figure:
        for number, (panel, rows) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(1, len(panels), number)
            _draw_latencies(axes, rows, latencies.columns.index("reactive ms a token p50"))
            axes.set_title(panel, fontsize=9)
            axes.set_xlabel("proactive requests a second")
            if number == 1:
                axes.set_ylabel("time to first token, ms a prompt token")
                axes.legend(fontsize=6)
    return written


def _by(rows: Sequence[Sequence[Any]], column: int) -> dict[str, list[Sequence[Any]]]:
    found: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(str(row[column]), []).append(row)
    return found


def _draw_rates(axes: Any, rows: Sequence[Sequence[Any]]) -> None:
    """Draw a group of bars for each kind of work of each set; ``rows`` have sets, work, system and rate."""
    kinds = list(dict.fromkeys((row[0], row[1]) for row in rows))
    systems = _by(rows, 2)
    width = 0.8 / len(systems)
    for number, (system, own) in enumerate(systems.items()):
        # Where a system has no rate there is no bar.
        shown = [(kinds.index((row[0], row[1])), row[3]) for row in own if row[3] is not None]
        lefts = [at - 0.4 + (number + 0.5) * width for at, _ in shown]
        rates = [rate for _, rate in shown]
        heights = [rate.value for rate in rates]
        colour = f"C{number}"  # also in the legend of a system without bars
        axes.bar(lefts, heights, 0.95 * width, yerr=reach(rates), capsize=2, label=system, color=colour)
    axes.set_xticks(range(len(kinds)), [f"{work}\n{sets}" for sets, work in kinds], fontsize=6)
    axes.set_ylabel("proactive requests a second")
    axes.legend(fontsize=6)


def _draw_latencies(axes: Any, rows: Sequence[Sequence[Any]], median: int) -> None:
    """Draw a line for each system; the column behind that of the ``median`` has the mean."""
    for system, own in _by(rows, 1).items():
        points = [row for row in own if row[median] is not None]
        rates, medians = [row[2] for row in points], [row[median] for row in points]
        values = [each.value for each in medians]
        (line, *_) = axes.errorbar(
            rates, values, yerr=reach(medians), fmt="o-", markersize=3, capsize=2, label=system
        )
        means = [row[median + 1].value for row in points]
        axes.plot(rates, means, ":", color=line.get_color(), linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    rates = sorted({row[2] for row in rows})
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.minorticks_off()


def main(arguments: Sequence[str]) -> None:
    """Draw the first argument (a trace, a report, or ``figure-4``) into the path of the second.

    Raises:
        SystemExit: an argument is missing, or the file cannot be read or drawn; the reason is on standard
            error.
    """
    parser = argparse.ArgumentParser(prog="python -m agentrt.bench.documentation.timeline")
    parser.add_argument("source", help="TRACE.json, REPORT.json, or figure-4 for a simulated Fig. 4")
    parser.add_argument("target", type=Path, help="a picture for a trace, a folder for everything else")
    given = parser.parse_args(arguments)
    try:
        _draw(given.source, given.target)
    except (AgentRTError, OSError, ValueError, KeyError) as error:
        parser.error(f"cannot draw {given.source} into {given.target}: {error}")


def _draw(source: str, target: Path) -> None:
    if source == "figure-4":
        for policy, simulated in figure4().items():
            draw_trace(simulated.trace.to_chrome(), target / f"agent-xpu-figure-4-{policy}.svg")
        return
    content = json.loads(Path(source).read_text(encoding="utf-8"))
    if "traceEvents" in content:
        draw_trace(content, target)
    else:
        draw_figures(BenchReport.model_validate(content), target)


if __name__ == "__main__":
    main(sys.argv[1:])
