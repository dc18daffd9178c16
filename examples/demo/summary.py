"""The table and the summary that the demo prints at its end."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..assistant.speculation_counter import SpeculationCounts
from .comparison import Comparison, Turn

_INTRODUCTION = (
    "A personal assistant that looks into notes, calendar, mail and files and asks a weather service. "
    "Nothing leaves this machine. {model} The weather is made up by a service on this machine, which waits "
    "{delay:.2f} s before it answers, as one far away might (--weather-delay). Every request is put to a "
    "plain agent and to one that drafts its next tool call and runs it speculatively, in turns, beside "
    "background tasks."
)
_NANO = (
    "Its model is a demonstration model: small enough to ship with agentrt, it knows little but these tools. "
    "Use a real one with --model."
)
_PACE = (
    " It could write some thousand tokens per second, too fast to hide a tool behind; for your requests it "
    "is held to {pace:g}, as a larger model would be (--pace 0 lets it run free)."
)


def introduce(model: str, weather_delay: float, pace: float, console: Console) -> None:
    """Print what the demo does, and what of it is made up."""
    about = _NANO if model == "nano" else f"Its model is {model}; the nano draft model predicts the calls."
    if pace:
        about += _PACE.format(pace=pace)
    console.print(_INTRODUCTION.format(model=about, delay=weather_delay), markup=False)


def summarize(comparison: Comparison, console: Console) -> None:
    """Print each request's time with both agents, the time saved, and whether the transcripts are equal."""
    console.print(_table(comparison))
    plain = sum(turn.seconds for turn in comparison.plain)
    speculative = sum(turn.seconds for turn in comparison.speculative)
    counts = sum((turn.counts for turn in comparison.speculative), SpeculationCounts())
    tools = sum(turn.tool_seconds for turn in comparison.plain)
    console.print(
        "G is the plain agent's time for the model, T that for its tools. A hit is a call whose tool was "
        "running, or done, before the model had made it; hidden is the time of such tools that the user did "
        "not wait for. A miss is a call that was not predicted. "
        f"{counts.wasted} speculative runs were wasted.\n"
    )
    change = f"{abs(plain - speculative):.2f} s ({abs(plain - speculative) / plain:.0%})"
    console.print(
        f"The user waited {plain:.2f} s for the plain agent and {speculative:.2f} s for the speculative one: "
        f"{change} {'less' if speculative < plain else 'more'}. Claimed speculations hid "
        f"{counts.hidden_s:.2f} of the tools' {tools:.2f} s; the rest of the difference is the cost of "
        "drafting and other load on this machine."
    )
    each = sum(turn.model_seconds for turn in comparison.plain) / sum(
        turn.model_calls for turn in comparison.plain
    )
    console.print(
        "A hit can hide no more than the time the model takes to write the call. This one takes "
        f"{each:.2f} s per call or answer; the slower the model and the tools, the more there is to save."
    )
    console.print(
        f"Beside that, {len(comparison.digest)} new mails were digested and {len(comparison.index)} "
        f"files indexed. The model wrote {comparison.tokens_per_second:.0f} tokens per second in all."
    )
    if not comparison.tools_ran:
        console.print(
            "The model called no tool, so there was nothing to speculate on. Use a model that was trained to "
            "call tools: agentrt pull Qwen/Qwen2.5-1.5B-Instruct-GGUF:q4_k_m",
            style="bold red",
        )
    difference = comparison.differences()
    if difference and comparison.exact:
        console.print("The two agents did not say the same. That is a fault of agentrt:", style="bold red")
        console.print(difference, markup=False, soft_wrap=True)
    elif difference:
        console.print(
            "The two agents did not say the same word for word. In the model's own precision a batch changes "
            "the last bits of a token's probability, and which requests share a batch depends on timing:",
            style="yellow",
        )
        console.print(difference, markup=False, soft_wrap=True)
    else:
        console.print("Both agents said and did the same, word for word.", style="green")


def _table(comparison: Comparison) -> Table:
    table = Table(title="Seconds per request", title_justify="left", show_footer=True, box=box.SIMPLE_HEAD)
    rows = [_row(*turns) for turns in zip(comparison.plain, comparison.speculative, strict=True)]
    totals = [sum(column) for column in zip(*rows, strict=True)]
    table.add_column("request", "all")
    names = ("G", "T", "plain", "specul.", "saved", "hidden", "hit", "miss")
    for name, total in zip(names, totals, strict=True):
        table.add_column(name, _cell(name, total), justify="right", no_wrap=True)
    for turn, row in zip(comparison.plain, rows, strict=True):
        table.add_row(escape(turn.request), *map(_cell, names, row))
    return table


def _row(plain: Turn, speculative: Turn) -> tuple[float, ...]:
    counts = speculative.counts
    saved = plain.seconds - speculative.seconds
    times = (plain.model_seconds, plain.tool_seconds, plain.seconds, speculative.seconds, saved)
    return (*times, counts.hidden_s, counts.hits, counts.misses)


def _cell(name: str, value: float) -> str:
    if name in ("hit", "miss"):
        return str(value or "")
    return f"{value:+.2f}" if name == "saved" else f"{value:.2f}"
