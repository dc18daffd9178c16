"""``python -m agentrt.bench.documentation``: measures what is not current, and fills the pages."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentrt.concurrency.interrupts import interrupts_deferred
from agentrt.errors import AgentRTError, ConfigurationError, InvalidRequestError

from ..common.report import BenchReport
from . import drawings, timeline
from .pages import check, documents, render
from .plan import PLAN, Part
from .reports import FIGURES, Measured, clean_commit, now, read_reports
from .sources import digest_of_file, digests_of

_PATIENCE = 4
"""Times the minutes of a part after which it hangs."""


def main(arguments: Sequence[str]) -> None:
    """Measure the parts that are not current, or those named, one after the other, and fill all pages.

    A part that fails leaves its old report as it is, and the others go on. What was measured is kept, so that
    a run that was ended is resumed by the same command.

    Raises:
        SystemExit: an argument is wrong, a region shows what no report has, a part has failed, or with
            ``--check`` a commit is not in the history.
    """
    parser = argparse.ArgumentParser(prog="python -m agentrt.bench.documentation")
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to measure even if it is current")
    parser.add_argument("--workloads", type=Path, help="a folder with recorded workloads")
    parser.add_argument("--models", type=Path, help="a folder with the GGUF files of the plan")
    parser.add_argument("--quick", action="store_true", help="on little work, to try it")
    parser.add_argument("--fill", action="store_true", help="only fill the pages from the reports")
    parser.add_argument("--check", action="store_true", help="say what is stale, and measure nothing")
    given = parser.parse_args(arguments)
    root = Path.cwd()
    if not (root / FIGURES).is_dir():
        parser.error(f"{root} is not a clone of agentrt: it has no {FIGURES}. Change to one.")
    if unknown := set(given.parts) - {part.name for part in PLAN}:
        parser.error(f"no such parts: {sorted(unknown)}. Use some of {[part.name for part in PLAN]}.")
    try:
        if given.check:
            sys.exit(_say_what_is_stale(root))
        failed = [] if given.fill else _measure_all(given, root)
        fill(root)
    except (AgentRTError, ValueError) as error:
        parser.error(str(error))
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}. The reason is above. The same command tries again.")


def fill(root: Path) -> None:
    """Write what the reports say into all regions of the pages.

    Raises:
        InvalidRequestError: a region shows a report, figure, table or column that does not exist.
    """
    reports = read_reports(root / FIGURES)
    for page in documents(root):
        text = page.read_text(encoding="utf-8")
        if (filled := render(text, reports, root)) != text:
            page.write_text(filled, encoding="utf-8")


def _say_what_is_stale(root: Path) -> int:
    found = check(root)
    for name, value in found.figures().items():
        print(f"{name:24} {value}")
    for line in found.lines:
        print(line)
    return 1 if found.not_in_history else 0


def _measure_all(given: argparse.Namespace, root: Path) -> list[str]:
    """Measure parts; return the names of those that failed."""
    commit = clean_commit()
    reports = read_reports(root / FIGURES)
    failed = []
    for part in PLAN:
        if given.parts and part.name not in given.parts:
            continue
        old = reports.get(part.name)
        if not given.parts and old and old.is_current(root) and set(part.rooms) == set(old.sources):
            _say(f"{part.name}: current, measured on {old.date}")
        elif why := _why_not(part, given):
            _say(f"{part.name}: left out, {why}")
        elif not _measure(part, commit, given, root):
            failed.append(part.name)
    return failed


def _why_not(part: Part, given: argparse.Namespace) -> str:
    """Return why a part cannot be measured with what was given; nothing if it can."""
    if part.workloads and given.workloads is None:
        return "it needs --workloads"
    absent = [each for each in part.models if given.models is None or not (given.models / each).is_file()]
    if absent:
        return f"it needs {', '.join(absent)} in --models"
    return "it has no little work" if given.quick and not part.has_quick else ""


def _measure(part: Part, commit: str, given: argparse.Namespace, root: Path) -> bool:
    """Run a part in a process of its own, draw its pictures and fill the pages; return whether it succeeded.

    What has failed may have written a report, too, which is kept: it says what went wrong.
    """
    command, date, sources = part.command(quick=given.quick), now(), digests_of(root, part.rooms)
    _say(f"{part.name}: {command}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        process = part.process(given.models, given.workloads, file, quick=given.quick)
        ended = run_group(process, 60 * _PATIENCE * part.minutes)
        if ended is None:
            _say(f"{part.name}: FAILED, it took more than {_PATIENCE * part.minutes} minutes")
        elif ended != 0:
            _say(f"{part.name}: FAILED with exit code {ended}")
        if not file.is_file():
            return False
        report = BenchReport.model_validate_json(file.read_bytes()).model_copy(update={"bench": part.name})
    if digests_of(root, part.rooms) != sources:
        raise ConfigurationError(f"the source changed while {part.name} was measured. Measure it again.")
    models = {name: digest_of_file(given.models / name) for name in part.models}
    measured = Measured(
        date=date,
        commit=commit,
        quick=given.quick,
        command=command,
        report=report,
        sources=sources,
        models=models,
    )
    measured.signed().write(root / FIGURES / f"{part.name}.json")
    _draw(report, root / FIGURES)
    fill(root)
    return ended == 0


def run_group(command: Sequence[str], timeout_s: float) -> int | None:
    """Run a process and return its exit code, or None if it took longer.

    When it ends, in whatever way, so do the processes that it has started: they would disturb the next part.
    """
    process = None
    try:
        with interrupts_deferred(signal.SIGTERM):  # else the process would be started and not known
            process = subprocess.Popen(command, start_new_session=True)
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _draw(report: BenchReport, folder: Path) -> None:
    if report.bench == "scheduler":
        timeline.draw_figures(report, folder)
        timeline.main(["figure-4", str(folder)])
    elif report.bench in drawings.DRAWN:
        with contextlib.suppress(InvalidRequestError):  # a part may have no table of a figure
            drawings.draw(report, folder)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
