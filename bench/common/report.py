"""The result every bench returns, its JSON file, and the repetitions of a measurement."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, FiniteFloat, model_validator

from .estimates import Estimate
from .machine import Machine

Cell = str | int | FiniteFloat | bool | Estimate | None


class Table(BaseModel):
    """Measurements behind the figures; every row has one cell per column."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @model_validator(mode="after")
    def _rows_fit_columns(self) -> Table:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} of table {self.title!r} has {len(row)} cells "
                    f"for {len(self.columns)} columns"
                )
        return self


class BenchReport(BaseModel):
    """What one bench measured.

    ``figures`` maps a name to one number with its interval (a truth value is 1 or 0; a figure that could not
    be measured is left out, never NaN). ``method`` describes the measurement well enough to repeat it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bench: str
    machine: Machine
    figures: dict[str, Estimate]
    tables: tuple[Table, ...] = ()
    method: str

    def to_json(self) -> str:
        """The report as indented JSON, fields in the order declared, with a final newline."""
        return self.model_dump_json(indent=2) + "\n"

    def write(self, path: Path) -> None:
        """Write the JSON to ``path`` atomically: a reader finds the old file or the whole new one.

        The folder must exist; raises :class:`OSError` as :func:`open` would.
        """
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(self.to_json())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of a bench's repetitions, one each: ``count`` of them from ``first`` on.

    ``count`` is None where the user has named none; the bench then takes as many as it is documented to.
    """

    count: int | None = None
    first: int = 0

    def take(self, default: int) -> range:
        """Return the seeds, ``default`` of them if no count was given."""
        return range(self.first, self.first + (default if self.count is None else self.count))
