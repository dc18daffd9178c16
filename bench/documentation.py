"""Measures the figures of the documentation and writes them into it: ``make figures``.

``python -m agentrt.bench.documentation [BENCH …]`` runs benches in a clone, keeps their reports as
``docs/figures/BENCH.json``, draws the pictures beside them, and fills the regions of ``README.md`` and
``docs/*.md`` that show a report. Without a bench it only fills the regions. With ``--model`` it measures the
context bench on this model instead of nano, and the engine and scheduler benches on it as well, kept as the
reports ``engine_models`` and ``scheduler_models``; with ``--draft`` besides, the drafting bench on these
models instead, and the speculation bench as well, kept as ``speculation_models``. With ``--part`` it measures
parts of bench context or speculation, kept as the report ``BENCH_PART``. A region is::

    <!-- measured BENCH
    figure | what it says
    -->
    …
    <!-- /measured -->

with one line for each figure, ``figures`` for all of them, and one line ``table TITLE`` or ``table TITLE |
COLUMN | COLUMN …`` for the last table whose title contains ``TITLE``. A region ``measured reports`` has
figures of several reports, ``BENCH figure | what it says``, each with the command that measures it.
Everything between the comments is replaced.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from agentrt.errors import AgentRTError, ConfigurationError, InvalidRequestError

from .common import figures
from .common.parts import PARTS, parts_of
from .common.report import BenchReport, Cell, Table

_REGION = re.compile(
    r"(?P<head><!-- measured (?P<bench>\w+)\n(?P<lines>.*?)-->\n).*?(?P<foot><!-- /measured -->)", re.DOTALL
)


_SEVERAL = "reports"
_WITH_MODELS = "_models"
_ALSO_WITH_MODELS = ("engine", "scheduler")
"""Benches whose report of a given model is kept beside that of their own models."""
_SMALL = 0.0005
"""Numbers below it would be rounded to 0."""
_NEARLY_ALL = 0.99
"""Numbers between it and 1 would be rounded to 1, or nearly."""


class Measured(BaseModel):
    """A bench's report with the time (UTC) and the commit of the measurement."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    commit: str
    quick: bool
    report: BenchReport
    models: tuple[str, ...] = ()
    """File names of the main model and the draft models that the bench was given."""
    parts: tuple[str, ...] = ()
    """Parts of the bench that were measured; all of them if none is named."""
    measured_by: str = ""
    """The command line that measures the report, if that is not ``agentrt bench``."""

    def write(self, file: Path) -> None:
        file.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def command(self) -> str:
        """Return the command line that measures the report."""
        if self.measured_by:
            return self.measured_by
        named = [f" --{'draft' if place else 'model'} {name}" for place, name in enumerate(self.models)]
        named += [f" --part {part}" for part in self.parts]
        bench = self.report.bench.removesuffix(_WITH_MODELS)
        for part in reversed(self.parts):
            bench = bench.removesuffix(f"_{part}")
        return f"agentrt bench {bench}{''.join(named)}{' --quick' if self.quick else ''}"

    def machine(self) -> str:
        """Return the cores and the operating system of the measurement."""
        machine = self.report.machine
        return f"{machine.usable_cores} cores of {machine.cpu}, {machine.operating_system.partition('-')[0]}"

    def source(self) -> str:
        """Return a sentence with the command, date, commit and machine of the measurement."""
        load = self.report.machine.load_average
        return (
            f"Measured by `{self.command()}` on {self.date} (UTC) at commit {self.commit}: "
            f"{self.machine()}{'' if load is None else f', load average {load[0]:.1f}'}."
        )


def render(text: str, reports: Mapping[str, Measured]) -> str:
    """Return a document with all of its regions filled.

    Raises:
        InvalidRequestError: a region shows a report, figure, table or column that does not exist.
    """

    def filled(region: re.Match[str]) -> str:
        lines = [line for line in region["lines"].splitlines() if line.strip()]
        if region["bench"] == _SEVERAL:
            return f"{region['head']}\n{_of_several(lines, reports)}\n\n{region['foot']}"
        measured = _report(reports, region["bench"])
        return f"{region['head']}\n{_body(lines, measured.report)}\n\n{measured.source()}\n\n{region['foot']}"

    return _REGION.sub(filled, text)


def _report(reports: Mapping[str, Measured], bench: str) -> Measured:
    if bench not in reports:
        raise InvalidRequestError("bench", f"no report of bench {bench!r} in docs/figures.")
    return reports[bench]


def read_reports(folder: Path) -> dict[str, Measured]:
    """Read the reports of all benches in ``folder``."""
    return {
        path.stem: Measured.model_validate_json(path.read_bytes()) for path in sorted(folder.glob("*.json"))
    }


def documents(root: Path) -> list[Path]:
    """Return the pages of a clone that can have regions."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


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
        return _markdown(
            ("figure", "measured"), [(f"`{each}`", value) for each, value in report.figures.items()]
        )
    rows: list[Sequence[Cell]] = []
    for line in lines:
        figure, _, meaning = (part.strip() for part in line.partition("|"))
        rows.append((f"`{figure}`", _figure(report, figure), meaning))
    return _markdown(("figure", "measured", ""), rows)


def _of_several(lines: Sequence[str], reports: Mapping[str, Measured]) -> str:
    rows: list[Sequence[Cell]] = []
    machines = set()
    for line in lines:
        bench, _, rest = line.partition(" ")
        figure, _, meaning = (part.strip() for part in rest.partition("|"))
        measured = _report(reports, bench)
        machines.add(measured.machine())
        command = f"`{measured.command()}`, {measured.date[:10]}"
        rows.append((meaning, _figure(measured.report, figure), command))
    return f"{_markdown(('', 'measured', 'by'), rows)}\n\nMeasured on {'; '.join(sorted(machines))}."


def _figure(report: BenchReport, name: str) -> float:
    if name not in report.figures:
        raise InvalidRequestError("figure", f"bench {report.bench} has no figure {name!r}.")
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
    if not isinstance(cell, float):
        return str(cell)
    if 0 < abs(cell) < _SMALL:
        return f"{cell:.1e}"
    digits = 0 if abs(cell) >= 100 else 1 if abs(cell) >= 10 else 2 if abs(cell) >= 0.1 else 3
    if _NEARLY_ALL < abs(cell) < 1:
        digits = 3  # a share of nearly all is not all
    shown = f"{cell:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def describe_commit() -> str:
    """Return the commit of this clone, with ``-dirty`` if there are changes since; empty without a clone."""
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return described.stdout.strip()


def clean_commit() -> str:
    """Return the commit of this clone.

    Raises:
        ConfigurationError: there are changes since, or this is no clone.
    """
    commit = describe_commit()
    if not commit or commit.endswith("-dirty"):
        raise ConfigurationError("figures are measured at a commit. Commit your changes first, in a clone.")
    return commit


def now() -> str:
    """Return the time (UTC) of a measurement that begins."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True)
class _Run:
    """A bench to be run, with the main model and the draft models and the parts that it is given."""

    name: str
    models: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def _measure(run: _Run, commit: str, given: argparse.Namespace, folder: Path) -> None:
    """Run a bench, keep its report and draw its pictures.

    Bench models measures all GGUF files in the folder ``--models``, the smallest first. Reports of given
    models beside those of the bench's own, and those of ``parts``, have names of their own.

    Raises:
        ConfigurationError: bench models has no such files.
    """
    date, name = now(), run.name
    main = importlib.import_module(f"agentrt.bench.{name}.main")
    options: dict[str, Any] = {"quick": given.quick, "workloads": given.workloads, "progress": _progress}
    if run.models:
        options["model"] = run.models[0]
    if run.models[1:]:
        options["drafts"] = list(run.models[1:])
    if run.parts:
        options["parts"] = parts_of(name, run.parts)
    report: BenchReport
    report = main.run_all(_gguf_files(given.models), **options) if name == "models" else main.run(**options)
    named = tuple(Path(each).name for each in run.models)
    kept_as = f"{report.bench}{_WITH_MODELS}" if run.models and name in _ALSO_WITH_MODELS else report.bench
    report = report.model_copy(update={"bench": "_".join((kept_as, *run.parts))})
    measured = Measured(
        date=date, commit=commit, quick=given.quick, report=report, models=named, parts=run.parts
    )
    measured.write(folder / f"{report.bench}.json")
    _draw(report, folder)


def _gguf_files(folder: Path | None) -> list[Path]:
    files = sorted(folder.glob("*.gguf"), key=lambda file: file.stat().st_size) if folder else []
    if not files:
        raise ConfigurationError("bench models has no models. Name a folder with GGUF files: --models DIR.")
    return files


def _draw(report: BenchReport, folder: Path) -> None:
    if report.bench == "scheduler":
        from .scheduler import timeline

        timeline.draw_figures(report, folder)
        timeline.main(["figure-4", str(folder)])
    elif report.bench in figures.DRAWN:
        figures.draw(report, folder)


def _progress(line: str) -> None:
    print(line, file=sys.stderr)


def main(arguments: Sequence[str]) -> None:
    """Measure the benches named in ``arguments``, and fill all regions.

    Raises:
        SystemExit: an argument is wrong, or a region shows what no report has.
    """
    parser = argparse.ArgumentParser(prog="python -m agentrt.bench.documentation")
    parser.add_argument("benches", nargs="*", metavar="BENCH", help="what to measure anew")
    parser.add_argument("--workloads", type=Path, help="a folder with recorded workloads")
    parser.add_argument("--models", type=Path, help="a folder with GGUF files for bench models")
    parser.add_argument("--quick", action="store_true", help="on little work, to try it")
    parser.add_argument(
        "--model", help="a main model for benches drafting, context, speculation, engine and scheduler"
    )
    parser.add_argument(
        "--part", action="append", default=[], help="a part of a bench that has parts; can be repeated"
    )
    parser.add_argument("--draft", action="append", help="a draft model for --model; can be repeated")
    given = parser.parse_args(arguments)
    if given.draft and given.model is None:
        parser.error("--draft needs --model, the main model.")
    if given.model and not given.draft and "drafting" in given.benches:
        parser.error("--model needs --draft for bench drafting.")
    root = Path.cwd()
    folder = root / "docs" / "figures"
    if not folder.is_dir():
        parser.error(f"{root} is not a clone of agentrt: it has no docs/figures. Change to one.")
    try:
        # Asked for once: the pictures of the first bench are changes, too.
        commit = clean_commit() if given.benches or given.model else ""
        pair = (given.model, *(given.draft or ())) if given.model else ()
        of_bench = {"drafting": pair, "context": pair[:1]}
        runs = [
            _Run(name, of_bench.get(name, ()), tuple(given.part) if name in PARTS else ())
            for name in given.benches
        ]
        runs += [_Run(name, pair[:1]) for name in _ALSO_WITH_MODELS if pair]
        runs += [_Run("speculation", pair)] if given.draft else []
        for each in runs:
            _measure(each, commit, given, folder)
        reports = read_reports(folder)
        for page in documents(root):
            text = page.read_text(encoding="utf-8")
            if (filled := render(text, reports)) != text:
                page.write_text(filled, encoding="utf-8")
    except (AgentRTError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
