"""Draws a trace like Fig. 4 of Agent.xpu, and its Figures 6 and 7 from a report.

``python -m agentrt.bench.scheduler.timeline TRACE.json PICTURE`` draws a trace, as ``.svg`` or ``.png``,
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

from ..common.figures import drawn, find_table
from ..common.report import BenchReport

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

    Lines are medians over all answers, dotted ones means; bars reach from the lowest to the highest median of
    a seed.

    Raises:
        InvalidRequestError: the report is another bench's.
        MissingExtraError: matplotlib is not installed.
    """
    written = []
    for name, title, column in (
        ("agent-xpu-figure-6.svg", "Fig. 6", "proactive ms a token p50"),
        ("agent-xpu-figure-7.svg", "Fig. 7", "reactive ms a token p50"),
    ):
        table = find_table(report, title)
        panels: dict[Any, list[Sequence[Any]]] = {}
        for row in table.rows:
            panels.setdefault(row[0], []).append(row)
        with drawn(folder / name, (3.3 * len(panels), 3.3)) as figure:
            for number, (panel, rows) in enumerate(panels.items(), 1):
                axes = figure.add_subplot(1, len(panels), number)
                _panel(axes, rows, table.columns.index(column))  # mean, lowest and highest follow it
                axes.set_title(str(panel), fontsize=9)
                axes.set_xlabel("proactive requests a second")
                if number == 1:
                    axes.set_ylabel("time to first token, ms a prompt token")
                    axes.legend(fontsize=6)
        written.append(folder / name)
    return written


def _panel(axes: Any, rows: Sequence[Sequence[Any]], value: int) -> None:
    systems: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        systems.setdefault(str(row[1]), []).append(row)
    for system, own in systems.items():
        points = [row for row in own if row[value] is not None]
        rates, medians = [row[2] for row in points], [row[value] for row in points]
        # The median over all answers may lie outside of those of the seeds.
        below = [max(0.0, row[value] - row[value + 2]) for row in points]
        above = [max(0.0, row[value + 3] - row[value]) for row in points]
        (line, *_) = axes.errorbar(
            rates, medians, yerr=[below, above], fmt="o-", markersize=3, capsize=2, label=system
        )
        means = [row[value + 1] for row in points]
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
    parser = argparse.ArgumentParser(prog="python -m agentrt.bench.scheduler.timeline")
    parser.add_argument("source", help="TRACE.json, REPORT.json, or figure-4 for a simulated Fig. 4")
    parser.add_argument("target", type=Path, help="a picture for a trace, a folder for everything else")
    given = parser.parse_args(arguments)
    try:
        _draw(given.source, given.target)
    except (AgentRTError, OSError, ValueError, KeyError) as error:
        parser.error(f"cannot draw {given.source} into {given.target}: {error}")


def _draw(source: str, target: Path) -> None:
    if source == "figure-4":
        from .simulated import figure4

        for policy, trace in figure4().items():
            draw_trace(trace.to_chrome(), target / f"agent-xpu-figure-4-{policy}.svg")
        return
    content = json.loads(Path(source).read_text(encoding="utf-8"))
    if "traceEvents" in content:
        draw_trace(content, target)
    else:
        draw_figures(BenchReport.model_validate(content), target)


if __name__ == "__main__":
    main(sys.argv[1:])
