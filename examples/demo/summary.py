"""What the demo prints before it begins and at its end."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agentrt.terminal_text import printable

from ..assistant.services import Latencies
from .comparison import Comparison, Turn
from .run import Result

_INTRODUCTION = (
    "A personal assistant with notes, calendar, mail and files, which asks a weather service and the web. "
    "Nothing leaves this machine. {model}\n"
    "Mail on a server, weather and web are imitated. As real ones do, "
    "an IMAP command takes {mail:.0f} ms, the weather {weather:.0f} ms and a web page {web:.0f} ms, for "
    "both agents alike (--latency 0 adds nothing); docs/demo.md says where these times are from.\n"
    "Each request goes to a plain agent and to one with agentrt: same engine, same tools.{order}"
)
_NANO = (
    "Its model is a demonstration model: small enough to ship with agentrt, it knows little but these tools. "
    "Use a real one with --model."
)
_PACE = (
    " For your requests it is held to {pace:g} tokens per second, as a larger model would be (--pace 0 lets "
    "it run free), and both agents answer at once."
)
_TRAINED_MODEL = (
    "Use a model that was trained to call tools: agentrt pull Qwen/Qwen2.5-1.5B-Instruct-GGUF:q4_k_m"
)
_TURNS = " They answer one after the other, since they share the engine."
_BRIEFLY = (
    "One assistant twice: the same model, tools and questions. Mail, weather and web are imitated{pace}; "
    "--verbose says how."
)


def introduce(model: str, latencies: Latencies, pace: float, console: Console) -> None:
    """Print what the demo does, and what of it is made up."""
    about = _NANO if model == "nano" else f"Its model is {model}; the nano draft model predicts its calls."
    console.print(
        _INTRODUCTION.format(
            model=about,
            mail=1e3 * latencies.mail,
            weather=1e3 * latencies.weather,
            web=1e3 * latencies.web,
            order=_PACE.format(pace=pace) if pace else _TURNS,
        ),
        markup=False,
    )


def introduce_briefly(pace: float, console: Console) -> None:
    """Print in a line what is compared, and what of it is made up."""
    slowed = f", and the model is slowed down to {pace:g} tokens per second" if pace else ""
    console.print(_BRIEFLY.format(pace=slowed), style="dim")


def summarize(result: Result, console: Console) -> None:
    """Print each request's time with both agents, how it came about, and three numbers to remember."""
    comparison = result.comparison
    console.print(_table(comparison))
    console.print(_explanation(result))
    difference = comparison.differences()
    if difference:
        _explain(difference, exact=comparison.exact, console=console)
    _explain_model(comparison, console)
    for number, meaning in _three_numbers(result):
        console.print(Text.assemble((f"{number:>8}", "bold green"), f"  {meaning}"), soft_wrap=True)


def conclude(comparison: Comparison, console: Console) -> None:
    """Print what went wrong, if anything did, and in the last line the seconds with and without agentrt."""
    if comparison.exact and (difference := comparison.differences()):
        _explain(difference, exact=True, console=console)
    _explain_model(comparison, console)
    plain, ours = comparison.waited_s
    different = len(comparison.different)
    answers = f"{len(comparison.plain)} answers, {different} of them different (--verbose shows how),"
    line = f"{answers if different else 'the same answers'} in {ours:.1f} s instead of {plain:.1f} s."
    if round(100 * comparison.saved_share) > 0:
        console.print(line[0].upper() + line[1:], style="bold green", soft_wrap=True)
    else:
        console.print(f"Nothing gained: {line}", style="bold yellow", soft_wrap=True)


def _explain_model(comparison: Comparison, console: Console) -> None:
    """Print why the numbers below say little, if the model is the reason."""
    if not comparison.tools_ran:
        console.print(
            "The model called no tool, so there was nothing to speculate on. " + _TRAINED_MODEL,
            style="bold red",
        )
    elif comparison.unanswered:
        console.print(
            f"The model did not answer {len(comparison.unanswered)} of {len(comparison.plain)} requests: it "
            f"wrote calls only, so that the numbers below say little. {_TRAINED_MODEL}",
            style="bold red",
        )


def _explanation(result: Result) -> str:
    plain, counts = result.comparison.plain, result.comparison.counts
    model, tools = sum(turn.model_seconds for turn in plain), sum(turn.tool_seconds for turn in plain)
    return (
        f"G is the plain agent's time for the model ({model:.1f} s), T that for its tools ({tools:.1f} s). A "
        "hit is a call whose tool was running, or done, before the model had made it: this hid "
        f"{counts.hidden_s:.1f} s of tools. A request ahead is a model request that was sent before the "
        "call that it follows was written: it hides the model's own time. An answer itself cannot be hidden, "
        "so the time that the model takes for it is the least to wait. Beside the user's questions "
        f"{result.agentrt.digests_per_s:.0f} digests a second were written, in order of arrival "
        f"{result.fcfs.digests_per_s:.0f}.\n"
    )


def _three_numbers(result: Result) -> list[tuple[str, str]]:
    comparison, counts = result.comparison, result.comparison.counts
    plain, ours = comparison.waited_s
    first, first_fcfs = 1e3 * result.agentrt.median_s, 1e3 * result.fcfs.median_s
    return [
        (
            f"{abs(100 * comparison.saved_share):.0f} %",
            f"{'less' if ours < plain else 'more'} waiting: {ours:.1f} s instead of {plain:.1f} s for the "
            f"same {len(comparison.plain)} requests.",
        ),
        (
            f"{result.ttft_ratio:.0f} x",
            "sooner the first token while digests are written in the background: "
            f"{first:.0f} ms instead of {first_fcfs:.0f} ms in order of arrival.",
        ),
        (
            str(len(comparison.different)),
            "differences in what the two agents said and did. The price: "
            f"{counts.wasted} of {counts.hits + counts.wasted} tool runs and {counts.ahead_wasted} of "
            f"{counts.ahead_kept + counts.ahead_wasted} requests ahead were wasted.",
        ),
    ]


def _explain(difference: str, *, exact: bool, console: Console) -> None:
    if exact:
        console.print("The two agents did not say the same. That is a fault of agentrt:", style="bold red")
    else:
        console.print(
            "The two agents did not say the same word for word. In the model's own precision a batch changes "
            "the last bits of a token's probability, and which requests share a batch depends on timing:",
            style="yellow",
        )
    console.print(printable(difference), markup=False, soft_wrap=True)


def _table(comparison: Comparison) -> Table:
    table = Table(title="Seconds per request", title_justify="left", show_footer=True, box=box.SIMPLE_HEAD)
    rows = [_row(*turns) for turns in zip(comparison.plain, comparison.speculative, strict=True)]
    totals = [sum(column) for column in zip(*rows, strict=True)]
    table.add_column("request", "all")
    names = ("G", "T", "plain", "agentrt", "saved", "hits", "misses", "ahead")
    for name, total in zip(names, totals, strict=True):
        table.add_column(name, _cell(name, total), justify="right", no_wrap=True)
    for turn, row in zip(comparison.plain, rows, strict=True):
        table.add_row(escape(printable(turn.request)), *map(_cell, names, row))
    return table


def _row(plain: Turn, speculative: Turn) -> tuple[float, ...]:
    counts = speculative.counts
    saved = plain.seconds - speculative.seconds
    times = (plain.model_seconds, plain.tool_seconds, plain.seconds, speculative.seconds, saved)
    return (*times, counts.hits, counts.misses, counts.ahead_kept)


def _cell(name: str, value: float) -> str:
    if name in ("hits", "misses", "ahead"):
        return str(value or "")
    return f"{value:+.2f}" if name == "saved" else f"{value:.2f}"
