"""Tables of text, for notebooks and terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under named columns. The first column has names, the others numbers and remarks."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def html_of(before: Sequence[str], tables: Sequence[Table], after: Sequence[str]) -> str:
    """Return HTML of tables with paragraphs around them. No text in it becomes markup."""

    def paragraphs(texts: Sequence[str]) -> list[str]:
        return [f"<p>{escape(text)}</p>" for text in texts]

    return "\n".join(
        ["<div>", *paragraphs(before), *map(_html_of_table, tables), *paragraphs(after), "</div>"]
    )


def _html_of_table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def rich_of(before: Sequence[str], tables: Sequence[Table], after: Sequence[str]) -> Any:
    """Return the same for :mod:`rich`, which is installed where this is called."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = []
    for table in tables:
        drawn = RichTable()
        for number, column in enumerate(table.columns):
            drawn.add_column(Text(column), justify="right" if number else "left")
        for row in table.rows:
            drawn.add_row(*map(Text, row))
        shown.append(drawn)
    return Group(*map(Text, before), *shown, *map(Text, after))
