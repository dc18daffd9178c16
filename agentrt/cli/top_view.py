"""The picture that ``agentrt top`` draws of the latest frames of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

_STYLES: Final = {"reactive": "bold yellow", "proactive": "blue"}
_MOST_OWNERS: Final = 5


def draw(frames: Sequence[Mapping[str, Any]], status: str) -> RenderableType:
    """Return what ``frames`` say, at least one, in order and without gaps, below a line of ``status``."""
    latest, models = frames[-1], frames[-1]["models"]
    span_s = latest["t"] - frames[0]["t"]
    counts = _counts(latest)
    drafted = counts["drafted_tokens"]
    accepted = f"{counts['accepted_tokens'] / drafted:.0%}" if drafted else "none"
    waits = f"{_sum(models, 'running')} running   {_sum(models, 'waiting')} waiting"
    ended = [row for frame in reversed(frames) for model in frame["models"] for row in model.get("ended", ())]
    parts: list[RenderableType] = [
        _clean(status, style="dim"),
        Text(f"{_tokens(frames, span_s)}   {waits}"),
        Text(
            f"since the server's start: {counts['finished']} finished   {counts['cancelled']} cancelled   "
            f"{counts['failed']} failed   {counts['preemptions']} preemptions"
        ),
        Text(
            f"{counts['answered_calls']} calls answered from the tool cache   draft tokens accepted: "
            f"{accepted}"
        ),
    ]
    if speculation := latest.get("speculation"):
        parts.append(
            _clean(
                f"speculation: {speculation['drafts']} drafts, {speculation['claims']} claims, "
                f"{speculation['misses']} misses, {speculation['wasted']} wasted, "
                f"{speculation['saved_s']:.1f} s saved"
            )
        )
    return Group(
        *parts,
        *_table(
            "KV memory", ("model", "status", "held, cached, free", "by app and context"), map(_model, models)
        ),
        *_table(
            f"XPUs in the last {span_s:.1f} s", ("XPU", "reactive", "proactive", "kernels/s"), _xpus(frames)
        ),
        *_table(
            "requests",
            ("class", "position", "state", "expected", "app", "request", "tokens"),
            (_request(row) for model in models for row in model.get("requests", ())),
        ),
        *_table(
            f"ended in the last {span_s:.1f} s",
            ("class", "app", "request", "outcome", "queued", "first token", "total"),
            map(_ended, ended),
        ),
    )


def _clean(value: Any, style: str = "") -> Text:
    """Return a value as text in which nothing is a command to the terminal: apps choose their names."""
    text = "" if value is None else str(value)
    safe = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return Text(safe, style)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[RenderableType]:
    """Return a table with a line for each row; of columns that do not fit, the widest become shorter."""
    table = Table(*map(_column, columns), box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for row in rows:
        cells = [cell if isinstance(cell, Text) else _clean(cell) for cell in row]
        for cell in cells:
            cell.no_wrap, cell.overflow = True, "ellipsis"
        table.add_row(*cells)
    if not table.rows:
        return [Text(f"\n{title}: none", style="bold")]
    return [Text(f"\n{title}", style="bold"), table]


def _column(name: str) -> Column:
    return Column(name, no_wrap=name in ("class", "position"))  # which then never become shorter


def _tokens(frames: Sequence[Mapping[str, Any]], span_s: float) -> str:
    if not span_s:
        return "tokens/s not known yet"
    tokens = _counts(frames[-1])["sampled_tokens"] - _counts(frames[0])["sampled_tokens"]
    return f"{tokens / span_s:,.0f} tokens/s over {span_s:.1f} s"


def _counts(frame: Mapping[str, Any]) -> Counter[str]:
    """Return the counters of all models together, since the server was started."""
    return sum((Counter(model["counts"]) for model in frame["models"]), Counter())


def _sum(models: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(model.get(name, 0) for model in models)


def _model(model: Mapping[str, Any]) -> Sequence[Any]:
    kv = model.get("kv")
    if kv is None:
        return model["name"], model["status"], "", ""
    status = f"no progress for {model['stalled_s']} s" if model["stalled_s"] > 5 else model["status"]
    held = kv["bytes"] - kv["free_bytes"] - kv["cached_bytes"]
    sizes = ", ".join(_mib(part) for part in (held, kv["cached_bytes"], kv["free_bytes"]))
    return model["name"], status, sizes, _owners(kv["held"])


def _owners(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the largest rows of a frame's ``kv.held``, and the sum of all others."""
    parts = [f"{_owner(row)} {_mib(row['bytes'])}" for row in rows[:_MOST_OWNERS]]
    if rest := rows[_MOST_OWNERS:]:
        parts.append(f"{len(rest)} others {_mib(_sum(rest, 'bytes'))}")
    return "; ".join(parts)


def _owner(row: Mapping[str, Any]) -> str:
    purpose = row.get("held_for", "requests")
    if row["app"] is None:
        return f"({purpose})"
    context = "several" if row["context"] is None else row["context"]
    return " ".join(
        filter(None, (row["app"] or "-", context, "" if purpose == "requests" else f"({purpose})"))
    )


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _xpus(frames: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    """Return for each XPU the shares of the time in which it ran kernels of each class."""
    span_s = frames[-1]["t"] - frames[0]["t"]
    seconds: Counter[tuple[str, bool]] = Counter()
    kernels: Counter[str] = Counter()
    for frame in [*frames][1:] if span_s else ():  # what was before the first frame is not known
        for model in frame["models"]:
            for xpu, _, took_s, _, reactive, count, *_ in model.get("kernels", ()):
                name = f"{model['name']}: {model['xpus'][xpu]}"
                seconds[name, bool(reactive)] += took_s
                kernels[name] += count
    return [
        (
            name,
            f"{min(1.0, seconds[name, True] / span_s):.0%}",
            f"{min(1.0, seconds[name, False] / span_s):.0%}",
            f"{count / span_s:,.0f}",
        )
        for name, count in kernels.items()
    ]


def _request(row: Mapping[str, Any]) -> Sequence[Any]:
    share = f" {row['prefilled']:.0%}" if row["state"] == "prefill" else ""
    expected = ""
    if "not_known" in row:
        expected = row["not_known"]
    elif "first_token_s" in row:
        expected = f"token in {row['first_token_s']:.2f} s"
    elif "end_s" in row:
        expected = f"done in {row['end_s']:.1f} s"
    return (
        _class(row),
        row["position"],
        f"{row['state']}{share}{', promoted' if row['promoted'] else ''}",
        expected,
        row["app"],
        row["id"],
        row["tokens"],
    )


def _ended(row: Mapping[str, Any]) -> Sequence[Any]:
    times = (row["queued_s"], row["first_token_s"], row["total_s"])
    shown = ("" if seconds is None else f"{seconds:.2f} s" for seconds in times)
    return _class(row), row["app"], row["id"], row["outcome"], *shown


def _class(row: Mapping[str, Any]) -> Text:
    return _clean(row["class"], _STYLES.get(row["class"], ""))
