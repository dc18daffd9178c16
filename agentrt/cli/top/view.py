"""The picture that ``agentrt top`` draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .state import SPAN_S, Frame, TopState

_BAR = 30  # columns
_MAX_REQUESTS = 20
_STYLES = {"reactive": "bold yellow", "proactive": "blue"}


def draw(state: TopState, status: str) -> RenderableType:
    """Return what is known, with a line that says how the server is reached."""
    parts: list[RenderableType] = [
        Text(status, style="dim"),
        Text(
            f"{state.tokens_per_s:,.0f} tokens/s   {state.sum('running')} running   "
            f"{state.sum('waiting')} waiting   {state.count('finished')} finished   "
            f"{state.count('cancelled')} cancelled   {state.count('failed')} failed   "
            f"{state.count('preemptions')} preemptions"
        ),
        _models(state),
        _xpus(state),
        _requests([row for model in state.models for row in model.get("requests", ())]),
        _ended(list(state.ended)),
        _tool_cache(state),
    ]
    if state.speculation is not None:
        parts.append(_speculation(state.speculation))
    return Group(*parts)


def clean(value: Any) -> Text:
    """Return a value as text in which nothing is a command to the terminal: apps choose their names."""
    text = "" if value is None else str(value)
    return Text("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text))


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _models(state: TopState) -> Table:
    table = _table("KV memory", "model", "status", "held, cached, free", "", "by app and context")
    for model in state.models:
        kv = model.get("kv")
        if kv is None:
            table.add_row(clean(model["name"]), clean(model["status"]))
            continue
        held = kv["bytes"] - kv["free_bytes"] - kv["cached_bytes"]
        marks = [round(_BAR * part / kv["bytes"]) for part in (held, kv["cached_bytes"])]
        bar = Text("█" * marks[0] + "▒" * marks[1] + "·" * (_BAR - sum(marks)))
        sizes = ", ".join(_mib(part) for part in (held, kv["cached_bytes"], kv["free_bytes"]))
        stalled = f"no progress for {model['stalled_s']} s" if model["stalled_s"] > 5 else model["status"]
        owners = [f"{each['app'] or '-'} {each['context']} {_mib(each['bytes'])}" for each in kv["held"][:5]]
        table.add_row(clean(model["name"]), clean(stalled), sizes, bar, clean("; ".join(owners)))
    return table


def _xpus(state: TopState) -> Table:
    table = _table(f"XPUs, last {SPAN_S:.0f} s", "XPU", "", "reactive", "proactive", "kernels/s")
    for name, use in state.use().items():
        marks = [round(_BAR * use.reactive), round(_BAR * use.proactive)]
        bar = Text("█" * marks[0], style=_STYLES["reactive"])
        bar.append("▄" * marks[1], style=_STYLES["proactive"])
        bar.append("·" * max(0, _BAR - sum(marks)))
        shares = (f"{use.reactive:.0%}", f"{use.proactive:.0%}", f"{use.kernels_per_s:,.0f}")
        table.add_row(clean(name), bar, *shares)
    return table


def _requests(rows: Sequence[Frame]) -> Table:
    table = _table(
        "requests", "class", "app", "request", "context", "state", "position", "expected", "age", "tokens"
    )
    for row in rows[:_MAX_REQUESTS]:
        table.add_row(
            Text(row["class"], style=_STYLES[row["class"]]),
            clean(row["app"]),
            clean(row["id"]),
            clean(row["context"]),
            _state(row),
            clean(row["position"]),
            _expected(row),
            f"{row['age_s']:.1f} s",
            str(row["tokens"]),
        )
    if len(rows) > _MAX_REQUESTS:
        table.add_row("", clean(f"and {len(rows) - _MAX_REQUESTS} more"))
    return table


def _state(row: Frame) -> str:
    share = f" {row['prefilled']:.0%}" if row["state"] == "prefill" else ""
    return f"{row['state']}{share}{', promoted' if row['promoted'] else ''}"


def _expected(row: Frame) -> str:
    if "first_token_s" in row:
        return f"first token in {row['first_token_s']:.2f} s"
    return f"done within {row['end_s']:.1f} s" if "end_s" in row else ""


def _ended(rows: Sequence[Frame]) -> Table:
    table = _table("ended", "class", "app", "request", "outcome", "queued", "first token", "total")
    for row in rows:
        waits = ("" if row[name] is None else f"{row[name]:.2f} s" for name in ("queued_s", "first_token_s"))
        style = _STYLES[row["class"]]
        table.add_row(
            Text(row["class"], style=style),
            clean(row["app"]),
            clean(row["id"]),
            row["outcome"],
            *waits,
            f"{row['total_s']:.2f} s",
        )
    return table


def _tool_cache(state: TopState) -> Text:
    tools = ", ".join(f"{tool} {count}" for tool, count in state.tools.most_common(5))
    drafted = state.count("drafted_tokens")
    accepted = f"{state.count('accepted_tokens') / drafted:.0%}" if drafted else "none"
    line = f"tool cache: {state.count('answered_calls')} calls answered   draft tokens accepted: {accepted}"
    return clean(f"{line}   {tools}" if tools else line)


def _speculation(counts: Frame) -> Text:
    return clean(
        f"speculation: {counts['drafts']} drafts, {counts['claims']} claims, {counts['misses']} misses, "
        f"{counts['wasted']} wasted, {counts['saved_s']:.1f} s saved"
    )


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"
