"""The pages of the documentation, and their regions, which show what reports say.

A region is::

    <!-- measured REPORT
    figure | what it says
    -->
    …
    <!-- /measured -->

with one line for each figure, ``figures`` for all of them, and one line ``table TITLE`` or ``table TITLE |
COLUMN | COLUMN …`` for the last table whose title contains ``TITLE``. A region ``measured reports`` has
figures of several reports, ``REPORT figure | what it says``, each with the command that measures it. In a
sentence, ``<!-- figure REPORT NAME -->…<!-- / -->`` shows one figure. Everything between the comments is
replaced.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentrt.errors import InvalidRequestError

from ..common.estimates import Estimate
from ..common.report import BenchReport, Cell, Table
from .prose import prose_numbers
from .reports import FIGURES, Measured, not_in_history, read_reports

_REGION = re.compile(
    r"(?P<head><!-- measured (?P<report>\w+)\n(?P<lines>.*?)-->\n).*?(?P<foot><!-- /measured -->)", re.DOTALL
)
_INLINE = re.compile(
    r"(?P<head><!-- figure (?P<report>\w+) (?P<figure>\S+) -->).*?(?P<foot><!-- / -->)", re.DOTALL
)
_SEVERAL = "reports"
_INTERVAL = "90 % interval"
_NOT_MEASURED = "not measured yet"
_SMALL = 0.0005
"""Numbers below it would be rounded to 0."""
_NEARLY_ALL = 0.99
"""Numbers between it and 1 would be rounded to 1, or nearly."""


def render(text: str, reports: Mapping[str, Measured], root: Path) -> str:
    """Return a page with all of its regions filled; ``root`` is the clone, whose source may have changed.

    Raises:
        InvalidRequestError: a region shows a report, figure, table or column that does not exist.
    """

    def filled(region: re.Match[str]) -> str:
        lines = [line for line in region["lines"].splitlines() if line.strip()]
        if region["report"] == _SEVERAL:
            body = _of_several(lines, reports, root)
        else:
            body = _of_one(lines, region["report"], reports, root)
        return f"{region['head']}\n{body}\n\n{region['foot']}"

    def inline(found: re.Match[str]) -> str:
        figure = _current_figure(reports, found["report"], found["figure"], root)
        return f"{found['head']}{_NOT_MEASURED if figure is None else _cell(figure)}{found['foot']}"

    return _INLINE.sub(inline, _REGION.sub(filled, text))


def _of_one(lines: Sequence[str], name: str, reports: Mapping[str, Measured], root: Path) -> str:
    if (measured := reports.get(name)) is None:
        return f"{_NOT_MEASURED}."
    try:
        body = _body(lines, measured.report)
    except InvalidRequestError:
        if measured.is_current(root):
            raise
        body = f"{_NOT_MEASURED} in this form."  # an older report has other figures
    return f"{body}\n\n{measured.source(root)}"


def _current_figure(reports: Mapping[str, Measured], name: str, figure: str, root: Path) -> Estimate | None:
    """Return a figure; None if it is not measured yet.

    Raises:
        InvalidRequestError: a current report has no such figure.
    """
    measured = reports.get(name)
    if measured is None or (figure not in measured.report.figures and not measured.is_current(root)):
        return None
    return _figure(measured.report, figure)


def documents(root: Path) -> list[Path]:
    """Return the pages of a clone that can have regions: all but the records of decisions."""
    docs = root / "docs"
    return [root / "README.md", *sorted({*docs.rglob("*.md")} - {*(docs / "decisions").glob("*")})]


def _body(lines: Sequence[str], report: BenchReport) -> str:
    parts: list[str] = []
    for are_tables, group in itertools.groupby(lines, lambda line: line.startswith("table ")):
        wanted = list(group)
        parts += [_named_table(each, report) for each in wanted] if are_tables else [_figures(wanted, report)]
    return "\n\n".join(parts)


def _named_table(line: str, report: BenchReport) -> str:
    title, *columns = (part.strip() for part in line.removeprefix("table ").split("|"))
    return _table(report, title, columns)


def _figures(lines: Sequence[str], report: BenchReport) -> str:
    if lines == ["figures"]:
        named = [(f"`{name}`", found.value, found.interval(_cell)) for name, found in report.figures.items()]
        return _markdown(("figure", "measured", _INTERVAL), named)
    rows: list[Sequence[Cell]] = []
    for line in lines:
        figure, _, meaning = (part.strip() for part in line.partition("|"))
        found = _figure(report, figure)
        rows.append((f"`{figure}`", found.value, found.interval(_cell), meaning))
    return _markdown(("figure", "measured", _INTERVAL, ""), rows)


def _of_several(lines: Sequence[str], reports: Mapping[str, Measured], root: Path) -> str:
    rows: list[Sequence[Cell]] = []
    machines = set()
    for line in lines:
        name, _, rest = line.partition(" ")
        figure, _, meaning = (part.strip() for part in rest.partition("|"))
        found, measured = _current_figure(reports, name, figure, root), reports.get(name)
        if found is None or measured is None:
            rows.append((meaning, _NOT_MEASURED, "", ""))
            continue
        machines.add(measured.machine())
        when = measured.date[:10] if measured.is_current(root) else f"{measured.date[:10]}, older source"
        rows.append((meaning, found.value, found.interval(_cell), f"`{measured.command}`, {when}"))
    table = _markdown(("", "measured", _INTERVAL, "by"), rows)
    return f"{table}\n\nMeasured on {'; '.join(sorted(machines))}."


def _figure(report: BenchReport, name: str) -> Estimate:
    if name not in report.figures:
        raise InvalidRequestError("figure", f"report {report.bench} has no figure {name!r}.")
    return report.figures[name]


def _table(report: BenchReport, title: str, columns: Sequence[str]) -> str:
    found = [table for table in report.tables if title in table.title]
    if not found:
        raise InvalidRequestError("table", f"bench {report.bench} has no table {title!r}.")
    table: Table = found[-1]
    if not columns:
        return _markdown(table.columns, table.rows)
    if unknown := set(columns) - set(table.columns):
        raise InvalidRequestError("column", f"table {table.title!r} has no columns {sorted(unknown)}.")
    places = [table.columns.index(column) for column in columns]
    return _markdown(columns, [[row[place] for place in places] for row in table.rows])


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    lines = [columns, ["---"] * len(columns), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|" for line in lines)


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Estimate):
        interval = f" ({cell.interval(_cell)})" if cell.low is not None and not cell.is_exact else ""
        return f"{_cell(cell.value)}{interval}"
    if not isinstance(cell, float):
        return str(cell)
    if 0 < abs(cell) < _SMALL:
        return f"{cell:.1e}"
    digits = 0 if abs(cell) >= 100 else 1 if abs(cell) >= 10 else 2 if abs(cell) >= 0.1 else 3
    if _NEARLY_ALL < abs(cell) < 1:
        digits = 3  # a share of nearly all is not all
    shown = f"{cell:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


@dataclass(frozen=True, slots=True)
class Checked:
    """How far the pages are from what their reports can say."""

    regions: int
    stale: int
    """Regions that are not measured yet, or of which the source has changed since."""
    without_interval: int
    """Regions that show a figure without an interval."""
    not_in_history: int
    """Reports of commits that are no ancestors of HEAD."""
    by_hand: int
    """Sentences with a measured number that no report has."""
    lines: tuple[str, ...]
    """What is wrong with which report."""

    def figures(self) -> dict[str, int]:
        return {
            "regions": self.regions,
            "regions_stale": self.stale,
            "regions_without_interval": self.without_interval,
            "reports_not_in_history": self.not_in_history,
            "prose_numbers_by_hand": self.by_hand,
        }


def check(root: Path) -> Checked:
    """Return what is stale in the pages of the clone at ``root``.

    Raises:
        ConfigurationError: the history is not here.
    """
    reports = read_reports(root / FIGURES)
    texts = [page.read_text(encoding="utf-8") for page in documents(root)]
    shown = [each for text in texts for each in _shown(text, reports, root)]
    gone = not_in_history({measured.commit for measured in reports.values()})
    stale = {name for name, measured in reports.items() if not measured.is_current(root)}
    stale |= {name for found in shown for name in found} - reports.keys()
    lines = [f"{name}: {_NOT_MEASURED}" for name in sorted(stale - reports.keys())]
    lines += [f"{name}: {reports[name].source(root)}" for name in sorted(stale & reports.keys())]
    lines += [
        f"{name}: {each.commit} is not in the history"
        for name, each in reports.items()
        if each.commit in gone
    ]
    return Checked(
        regions=len(shown),
        stale=sum(bool(stale & found.keys()) for found in shown),
        without_interval=sum(not all(map(_have_intervals, found.values())) for found in shown),
        not_in_history=sum(measured.commit in gone for measured in reports.values()),
        by_hand=sum(len(prose_numbers(text)) for text in texts),
        lines=tuple(lines),
    )


def _have_intervals(figures: Sequence[Estimate | None]) -> bool:
    return all(figure is not None and figure.has_interval for figure in figures)


def _shown(text: str, reports: Mapping[str, Measured], root: Path) -> list[dict[str, list[Estimate | None]]]:
    """Return the figures of each region of a page, by report; None for those that are not measured yet."""
    regions: list[dict[str, list[Estimate | None]]] = []
    for region in _REGION.finditer(text):
        found: dict[str, list[Estimate | None]] = {}
        for line in filter(str.strip, region["lines"].splitlines()):
            name, rest = line.split(" ", 1) if region["report"] == _SEVERAL else (region["report"], line)
            figures = found.setdefault(name, [])
            if rest == "figures" and name in reports:
                figures += reports[name].report.figures.values()
            elif not rest.startswith("table "):
                figures.append(_current_figure(reports, name, rest.partition("|")[0].strip(), root))
        regions.append(found)
    for inline in _INLINE.finditer(text):
        figure = _current_figure(reports, inline["report"], inline["figure"], root)
        regions.append({inline["report"]: [figure]})
    return regions
