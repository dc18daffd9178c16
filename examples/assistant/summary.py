"""The table that the demo ends with."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .comparison import Comparison, Run
from .guesses import Guesses

_INTRODUCTION = (
    "A personal assistant that looks into notes, calendar, mail and files and asks a weather service. "
    "Nothing leaves this machine. {model} The weather is made up by a service on this machine, which waits "
    "{delay:.2f} s before it answers, as one far away might (--weather-delay). Every request is put to a "
    "plain agent, then to one that guesses its next tool call and starts it early; the same background tasks "
    "run beside both."
)
_NANO = (
    "Its model is a demonstration model: small enough to ship with agentrt, it knows little but these tools. "
    "Use a real one with --model."
)


def introduce(model: str, weather_delay: float, console: Console) -> None:
    """Say what is about to be shown, and what of it is made up."""
    about = _NANO if model == "nano" else f"Its model is {model}; the nano draft model does the guessing."
    console.print(_INTRODUCTION.format(model=about, delay=weather_delay), markup=False)


def summarize(comparison: Comparison, console: Console) -> None:
    """Print what each request took in both runs, what was saved, and whether the same was said."""
    plain, speculative = comparison.plain, comparison.speculative
    console.print(_table(plain, speculative))
    console.print(
        "G is the model's time and T the tools', both in the plain run. hit: calls whose tool was running, "
        "or done, before the model had made them. miss: calls that nobody had guessed. vain: tools that ran "
        "on a wrong guess.",
    )
    saved = plain.seconds - speculative.seconds
    if saved > 0:
        console.print(f"Speculation saved {saved:.2f} of {plain.seconds:.2f} s: {saved / plain.seconds:.0%}.")
    else:
        console.print(f"Speculation saved nothing here: the speculative run took {-saved:.2f} s longer.")
    model_seconds = sum(turn.model_seconds for turn in plain.turns)
    console.print(
        "A hit can save no more than the tool took, and no more than the model took to write the call. This "
        f"model takes {model_seconds / sum(turn.model_calls for turn in plain.turns):.2f} s per answer or "
        "call, and guessing costs computing time: the slower the model and the tools, the more there is to "
        "save."
    )
    difference = comparison.differences()
    if difference:
        console.print("The two runs did not say the same. That is a fault of agentrt:", style="bold red")
        console.print(difference, markup=False, soft_wrap=True)
    else:
        console.print("Both runs said the same, word for word.", style="green")
    for name, run in (("plain", plain), ("speculative", speculative)):
        console.print(
            f"Beside the {name} run, {len(run.digest)} new mails were digested and {len(run.index)} files "
            f"indexed; the runtime wrote {run.tokens_per_second:.0f} tokens per second in all.",
        )


def _table(plain: Run, speculative: Run) -> Table:
    guesses = sum((turn.guesses for turn in speculative.turns), Guesses())
    table = Table(title="Seconds per request", title_justify="left", show_footer=True, box=box.SIMPLE_HEAD)
    table.add_column("request", "all")
    for name, total in (
        ("G", f"{sum(turn.model_seconds for turn in plain.turns):.2f}"),
        ("T", f"{sum(turn.tool_seconds for turn in plain.turns):.2f}"),
        ("plain", f"{plain.seconds:.2f}"),
        ("specul.", f"{speculative.seconds:.2f}"),
        ("saved", f"{plain.seconds - speculative.seconds:+.2f}"),
        ("hit", str(guesses.hits)),
        ("miss", str(guesses.misses)),
        ("vain", str(guesses.wasted)),
    ):
        table.add_column(name, total, justify="right", no_wrap=True)
    for before, after in zip(plain.turns, speculative.turns, strict=True):
        table.add_row(
            escape(before.request),
            f"{before.model_seconds:.2f}",
            f"{before.tool_seconds:.2f}",
            f"{before.seconds:.2f}",
            f"{after.seconds:.2f}",
            f"{before.seconds - after.seconds:+.2f}",
            *(str(count or "") for count in (after.guesses.hits, after.guesses.misses, after.guesses.wasted)),
        )
    return table
