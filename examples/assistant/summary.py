"""The table that the demo ends with."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .comparison import Comparison, Run
from .guesses import Guesses

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
    plain, speculative = comparison.plain, comparison.speculative
    console.print(_table(plain, speculative))
    console.print(
        "G is the time for the model and T that for the tools in the plain run. A call is a hit if its tool "
        "was already running, or done, when the model made it; requests that call no tool that may start "
        "early can save nothing.",
        highlight=False,
    )
    saved = plain.seconds - speculative.seconds
    if saved > 0:
        console.print(f"Speculation saved {saved:.2f} of {plain.seconds:.2f} s: {saved / plain.seconds:.0%}.")
    else:
        console.print(f"Speculation saved nothing here: the speculative run took {-saved:.2f} s longer.")
    difference = comparison.differences()
    if difference:
        console.print("The two runs did not say the same. That is a fault of agentrt:", style="bold red")
        console.print(difference, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print("Both runs said the same, word for word.", style="green")
    for name, run in (("plain", plain), ("speculative", speculative)):
        console.print(
            f"Beside the {name} run, {len(run.digest)} new mails were digested and {len(run.index)} files "
            f"indexed; the runtime wrote {run.tokens_per_second:.0f} tokens per second in all.",
            highlight=False,
        )


def _table(plain: Run, speculative: Run) -> Table:
    table = Table(title="Seconds per request", title_justify="left", show_footer=True)
    table.add_column("request", "all", overflow="fold")
    for name, total in (
        ("G", sum(turn.model_seconds for turn in plain.turns)),
        ("T", sum(turn.tool_seconds for turn in plain.turns)),
        ("plain", plain.seconds),
        ("speculative", speculative.seconds),
        ("saved", plain.seconds - speculative.seconds),
    ):
        table.add_column(name, f"{total:.2f}", justify="right")
    table.add_column("calls", _calls(sum((turn.guesses for turn in speculative.turns), Guesses())))
    for before, after in zip(plain.turns, speculative.turns, strict=True):
        table.add_row(
            escape(before.request),
            f"{before.model_seconds:.2f}",
            f"{before.tool_seconds:.2f}",
            f"{before.seconds:.2f}",
            f"{after.seconds:.2f}",
            f"{before.seconds - after.seconds:+.2f}",
            _calls(after.guesses),
        )
    return table


def _calls(guesses: Guesses) -> str:
    parts = [f"{guesses.hits} hit"] if guesses.hits else []
    parts += [f"{guesses.misses} miss"] if guesses.misses else []
    parts += [f"{guesses.wasted} in vain"] if guesses.wasted else []
    return ", ".join(parts) or "-"
