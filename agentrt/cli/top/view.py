"""The picture that ``agentrt top`` draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from .columns import Column, FittedTable, name_column
from .memory import held_for, mib
from .state import Frame, TopState

_BAR: Final = 30  # columns
_MAX_REQUESTS: Final = 20
_WAITS: Final = ("queued_s", "first_token_s")
_STYLES: Final = {"reactive": "bold yellow", "proactive": "blue"}


def draw(state: TopState, status: str, *, whole: bool = False) -> RenderableType:
    """Return what is known, with a line that says how the server is reached.

    The ``whole`` picture has all requests, and no bars: it is for programs that read it.
    """
    parts: list[RenderableType] = [
        clean(status, style="dim"),
        Text(f"{_tokens(state)}   {state.sum('running')} running   {state.sum('waiting')} waiting"),
        Text(
            f"since the server's start: {state.count('finished')} finished   "
            f"{state.count('cancelled')} cancelled   {state.count('failed')} failed   "
            f"{state.count('preemptions')} preemptions"
        ),
        Text(),
        _models(state, bars=not whole),
        Text(),
        _xpus(state, bars=not whole),
        Text(),
        *_requests([row for model in state.models for row in model.get("requests", ())], whole=whole),
        Text(),
        _ended(state.ended),
        Text(),
        _tool_cache(state),
    ]
    if state.speculation is not None:
        parts.append(_speculation(state.speculation))
    return Group(*parts)


def clean(value: Any, style: str = "") -> Text:
    """Return a value as text in which nothing is a command to the terminal: apps choose their names."""
    text = "" if value is None else str(value)
    return Text("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text), style)


def _tokens(state: TopState) -> str:
    rate = state.tokens
    if rate is None:
        return "tokens/s not known yet"
    return f"{rate.per_s:,.0f} tokens/s over {rate.seconds:.1f} s"


def _bar(*parts: tuple[str, str, float]) -> Text:
    """Return a bar of parts, each a character, its style and its share of the whole."""
    bar = Text()
    for character, style, share in parts:
        bar.append(character * min(round(_BAR * share), _BAR - len(bar)), style)
    return bar.append("·" * (_BAR - len(bar)))


def _models(state: TopState, *, bars: bool) -> FittedTable:
    columns = [
        name_column("model"),
        Column("status"),
        Column("held, cached, free", left_out=1),
        *([Column("", left_out=3)] if bars else []),
        name_column("by app and context", left_out=2),
    ]
    rows = []
    for model in state.models:
        kv = model.get("kv")
        if kv is None:
            status, sizes, bar, owners = model["status"], "", Text(), ""
        else:
            status = f"no progress for {model['stalled_s']} s" if model["stalled_s"] > 5 else model["status"]
            held = kv["bytes"] - kv["free_bytes"] - kv["cached_bytes"]
            sizes = ", ".join(mib(part) for part in (held, kv["cached_bytes"], kv["free_bytes"]))
            bar = _bar(("█", "", held / kv["bytes"]), ("▒", "", kv["cached_bytes"] / kv["bytes"]))
            owners = held_for(kv["held"])
        rows.append(
            [clean(model["name"]), clean(status), Text(sizes), *([bar] if bars else []), clean(owners)]
        )
    return FittedTable("KV memory", columns, rows)


def _xpus(state: TopState, *, bars: bool) -> FittedTable | Text:
    if not state.use_s:
        return Text("XPUs: not known yet", style="bold")
    columns = [
        name_column("XPU"),
        *([Column("", left_out=2)] if bars else []),
        Column("reactive"),
        Column("proactive"),
        Column("kernels/s", left_out=1),
    ]
    rows = []
    for name, use in state.use().items():
        bar = _bar(
            ("█", _STYLES["reactive"], use.reactive),
            ("▄", _STYLES["proactive"], use.proactive),
        )
        numbers = (f"{use.reactive:.0%}", f"{use.proactive:.0%}", f"{use.kernels_per_s:,.0f}")
        rows.append([clean(name), *([bar] if bars else []), *map(Text, numbers)])
    return FittedTable(f"XPUs that ran kernels in the last {state.use_s:.1f} s", columns, rows)


def _requests(rows: Sequence[Frame], *, whole: bool) -> list[RenderableType]:
    columns = [
        Column("class"),
        Column("app", shortest=7, left_out=1),
        name_column("request", left_out=2),
        name_column("context", left_out=6),
        Column("state", shortest=17),
        Column("position"),
        Column("expected", left_out=3),
        Column("age", left_out=4),
        Column("tokens", left_out=5),
    ]
    shown = rows if whole else rows[:_MAX_REQUESTS]
    drawn: list[RenderableType] = [
        FittedTable(
            "requests",
            columns,
            [
                [
                    _class(row),
                    clean(row["app"]),
                    clean(row["id"]),
                    clean(row["context"]),
                    clean(_state(row)),
                    clean(row["position"]),
                    clean(_expected(row)),
                    Text(f"{row['age_s']:.1f} s"),
                    Text(str(row["tokens"])),
                ]
                for row in shown
            ],
        )
    ]
    if len(rows) > len(shown):
        drawn.append(Text(f"and {len(rows) - len(shown)} more"))
    return drawn


def _class(row: Frame) -> Text:
    return clean(row["class"], _STYLES.get(row["class"], ""))


def _state(row: Frame) -> str:
    share = f" {row['prefilled']:.0%}" if row["state"] == "prefill" else ""
    return f"{row['state']}{share}{', promoted' if row['promoted'] else ''}"


def _expected(row: Frame) -> str:
    if "not_known" in row:
        return str(row["not_known"])
    if "first_token_s" in row:
        return f"first token in {row['first_token_s']:.2f} s"
    return f"done within {row['end_s']:.1f} s" if "end_s" in row else ""


def _ended(rows: Sequence[Frame]) -> FittedTable:
    columns = [
        Column("class"),
        name_column("app", left_out=1),
        name_column("request", left_out=3),
        Column("outcome"),
        Column("queued", left_out=4),
        Column("first token", left_out=2),
        Column("total"),
    ]
    cells = [
        [
            _class(row),
            clean(row["app"]),
            clean(row["id"]),
            clean(row["outcome"]),
            *(Text("" if row[name] is None else f"{row[name]:.2f} s") for name in _WAITS),
            Text(f"{row['total_s']:.2f} s"),
        ]
        for row in rows
    ]
    return FittedTable("ended while watched", columns, cells)


def _tool_cache(state: TopState) -> Text:
    tools = ", ".join(f"{tool} {count}" for tool, count in state.tools.most_common(5))
    drafted = state.count("drafted_tokens")
    accepted = f"{state.count('accepted_tokens') / drafted:.0%}" if drafted else "none"
    line = (
        f"since the server's start: {state.count('answered_calls')} calls answered from the tool cache   "
        f"draft tokens accepted: {accepted}"
    )
    return clean(f"{line}   while watched: {tools}" if tools else line)


def _speculation(counts: Frame) -> Text:
    return clean(
        f"speculation: {counts['drafts']} drafts, {counts['claims']} claims, {counts['misses']} misses, "
        f"{counts['wasted']} wasted, {counts['saved_s']:.1f} s saved"
    )
