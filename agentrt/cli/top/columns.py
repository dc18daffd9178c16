"""Tables that fit the width of the terminal: some columns become shorter, then others are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_GAP: Final = 2
_SHORTEST_NAME: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and what may happen to it where the terminal is too narrow."""

    name: str
    shortest: int | None = None
    """Cells to which it may be cut; None if it is not cut."""
    left_out: int = 0
    """Of the columns that are in the table, that with the greatest number is left out next; 0 never is."""


def name_column(name: str, left_out: int = 0) -> Column:
    """Return a column of names or ids, of which the beginning tells much."""
    return Column(name, _SHORTEST_NAME, left_out)


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table with a line for each row, and none if there are no rows: then the title says so."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it within the width of ``options``."""
        if not self.rows:
            yield Text(f"{self.title}: none", style="bold")
            return
        yield Text(self.title, style="bold")
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
        widths = fitted(self.columns, self._natural(), options.max_width)
        for index, width in widths.items():
            table.add_column(self.columns[index].name, width=width, no_wrap=True)
        for row in self.rows:
            table.add_row(*(row[index] for index in widths))
        yield table

    def _natural(self) -> list[int]:
        cells: Iterator[tuple[Text, ...]] = zip(*self.rows, strict=True)
        return [
            max(len(column.name), *(cell.cell_len for cell in own))
            for column, own in zip(self.columns, cells, strict=True)
        ]


def fitted(columns: Sequence[Column], natural: Sequence[int], width: int) -> dict[int, int]:
    """Return the columns that fit into ``width`` cells, by index, with their widths.

    ``natural`` are the widths that they need. First columns are left out until the others fit when they are
    cut as far as they may be; then the widest are cut.
    """
    least = [
        need if column.shortest is None else min(need, column.shortest)
        for column, need in zip(columns, natural, strict=True)
    ]
    kept = list(range(len(columns)))
    while _total(least[index] for index in kept) > width:
        next_out = max(kept, key=lambda index: columns[index].left_out)
        if not columns[next_out].left_out:
            break
        kept.remove(next_out)
    widths = {index: natural[index] for index in kept}
    while _total(widths.values()) > width:
        longest = max(kept, key=lambda index: widths[index] - least[index])
        if widths[longest] == least[longest]:
            break
        widths[longest] -= 1
    return widths


def _total(widths: Iterable[int]) -> int:
    """Return the width of a table of columns of these widths."""
    return sum(width + _GAP for width in widths) - _GAP
