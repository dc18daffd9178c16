"""Reports as the documentation keeps them, in ``docs/figures``: what was measured, of what and when."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, field_validator

from agentrt.errors import ConfigurationError

from ..common.report import BenchReport
from .sources import digest_of, digests_of

FIGURES: Final = Path("docs") / "figures"
_WRITTEN: Final = (":!docs", ":!README.md")
"""What a run of figures changes itself."""


class Measured(BaseModel):
    """A bench's report with the time (UTC) and the commit of the measurement, and what it was measured of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    commit: str
    quick: bool
    command: str
    """The command line that measures it."""
    report: BenchReport
    sources: dict[str, str] = {}
    """Digest of each room of source that the figures depend on, weights of embedded models included."""
    models: dict[str, str] = {}
    """Digest of each model file that was given."""
    digest: str = ""
    """Of the report, so that no number in it is changed later."""

    @field_validator("report", mode="before")
    @classmethod
    def _with_estimates(cls, given: Any) -> Any:
        # Reports from before intervals have plain numbers.
        if not isinstance(given, dict):
            return given
        figures = {
            name: {"value": each} if isinstance(each, int | float) else each
            for name, each in given["figures"].items()
        }
        return {**given, "figures": figures}

    def write(self, file: Path) -> None:
        file.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def signed(self) -> Self:
        """Return the same with the digest of its report."""
        return self.model_copy(update={"digest": self._digest()})

    def _digest(self) -> str:
        return digest_of(self.report.model_dump_json().encode())

    @property
    def was_edited(self) -> bool:
        """Whether the report is another one than was measured."""
        return bool(self.sources) and self.digest != self._digest()

    def machine(self) -> str:
        """Return the cores and the operating system of the measurement."""
        machine = self.report.machine
        return f"{machine.usable_cores} cores of {machine.cpu}, {machine.operating_system.partition('-')[0]}"

    def changed_since(self, root: Path) -> list[str]:
        """Return the rooms of the clone at ``root`` that have changed since the measurement.

        A room that there is no longer is named by the folder in which it was.
        """
        now = digests_of(root, self.sources)
        changed = (Path(room) for room, digest in self.sources.items() if now[room] != digest)
        there = (next(each for each in (room, *room.parents) if (root / each).exists()) for room in changed)
        return list(dict.fromkeys(each.as_posix() for each in there))

    def is_current(self, root: Path) -> bool:
        """Whether it was measured in full, and nothing has changed of it or of what was measured."""
        whole = bool(self.sources) and not self.quick and not self.was_edited
        return whole and not self.changed_since(root)

    def source(self, root: Path) -> str:
        """Return sentences with the command, date, commit and machine, and what has changed since."""
        load = self.report.machine.load_average
        sentence = (
            f"Measured by `{self.command}` on {self.date} (UTC) at commit {self.commit}: "
            f"{self.machine()}{'' if load is None else f', load average {load[0]:.1f}'}."
        )
        if not self.sources:
            return f"{sentence} **Measured before reports said of which source.**"
        if self.quick:
            sentence += " **Measured on little work.**"
        if self.was_edited:
            sentence += " **Numbers were edited since.**"
        if changed := self.changed_since(root):
            return f"{sentence} **Measured before {', '.join(f'`{room}`' for room in changed)} changed.**"
        return sentence


def read_reports(folder: Path) -> dict[str, Measured]:
    """Read all reports in ``folder``, by name."""
    return {
        path.stem: Measured.model_validate_json(path.read_bytes()) for path in sorted(folder.glob("*.json"))
    }


def clean_commit() -> str:
    """Return the commit of this clone.

    Raises:
        ConfigurationError: there are changes since, other than of pages and reports, or this is no clone.
    """
    described = _git("rev-parse", "--short=10", "HEAD")
    if not described or _git("status", "--porcelain", "--", ".", *_WRITTEN):
        raise ConfigurationError("figures are measured at a commit. Commit your changes first, in a clone.")
    return described


def not_in_history(commits: Collection[str]) -> list[str]:
    """Return those of ``commits`` that are no ancestors of HEAD: nobody could repeat what was measured there.

    Raises:
        ConfigurationError: the history is not here, as in a shallow clone.
    """
    if _git("rev-parse", "--is-shallow-repository") != "false":
        raise ConfigurationError("the commits of reports are looked up in the history. Use a full clone.")
    return [commit for commit in sorted(commits) if not _is_ancestor(commit)]


def _is_ancestor(commit: str) -> bool:
    asked = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def now() -> str:
    """Return the time (UTC) of a measurement that begins."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()
