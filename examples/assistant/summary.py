"""The table that the demo ends with."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .comparison import Comparison

INTRODUCTION = (
    "A personal assistant that looks into notes, calendar, mail and files and asks a weather service. "
    "Nothing leaves this machine. Its model is a demonstration model: small enough to ship with agentrt, "
    "it knows little but these tools. The weather is made up by a service on this machine, which waits "
    "{delay:.2f} s before it answers, as one far away might (--weather-delay). Every request is put to a "
    "plain agent, then to one that guesses its next tool call and starts it early; the same background "
    "tasks run beside both."
)


def summarize(comparison: Comparison, console: Console) -> None:
    """Print what each request took in both runs, what was saved, and whether the same was said."""
    table = Table(title="Seconds per request", title_justify="left", show_footer=True)
    table.add_column("request", "all requests", overflow="fold")
    plain, speculative = comparison.plain, comparison.speculative
    for name, total in (
        ("model G", sum(turn.model_seconds for turn in plain.turns)),
        ("tools T", sum(turn.tool_seconds for turn in plain.turns)),
        ("plain", plain.seconds),
        ("speculative", speculative.seconds),
        ("saved", plain.seconds - speculative.seconds),
    ):
        table.add_column(name, f"{total:.2f}", justify="right")
    hits, misses = (
        sum(turn.hits for turn in speculative.turns),
        sum(turn.misses for turn in speculative.turns),
    )
    table.add_column("guesses", f"{hits} hit, {misses} missed")
    for before, after in zip(plain.turns, speculative.turns, strict=True):
        table.add_row(
            before.request,
            f"{before.model_seconds:.2f}",
            f"{before.tool_seconds:.2f}",
            f"{before.seconds:.2f}",
            f"{after.seconds:.2f}",
            f"{before.seconds - after.seconds:+.2f}",
            f"{after.hits} hit, {after.misses} missed" if after.hits + after.misses else "no tool",
        )
    console.print(table)
    console.print("G is the time the model took, T the time the tools took, both in the plain run.")
    saved = plain.seconds - speculative.seconds
    if saved > 0:
        console.print(f"Speculation saved {saved:.2f} of {plain.seconds:.2f} s, {saved / plain.seconds:.0%}.")
    else:
        console.print(f"Speculation saved nothing here: the run took {-saved:.2f} s longer.")
    difference = comparison.differences()
    if difference:
        console.print("The two runs did NOT say the same, which is a fault:", style="bold red")
        console.print(difference, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print("Both runs said exactly the same, word for word.")
    mails, files = len(speculative.digest), len(speculative.index)
    console.print(f"Beside each run, {mails} new mails were digested and {files} files indexed.")
