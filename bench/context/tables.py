"""The tables of the context bench: LLMS' figures drawn again, and what lies behind the figures."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..common.report import Table
from .accuracy import Accuracy
from .figures import Measured, active_contexts
from .poison import Poisoned
from .recompute import Recomputed
from .replayed import Replayed
from .restart import Restart
from .sweeps import SweepPoint
from .tool_calls import ToolCalls

_MS = 1e3


def tables_of(measured: Measured, sweeps: Sequence[SweepPoint]) -> tuple[Table, ...]:
    """Return all tables of which something was measured."""
    found = []
    if measured.replayed:
        found += [latency_table(measured.replayed), active_table(measured.replayed)]
    if measured.restarts:
        found.append(restart_table(measured.restarts))
    for title in dict.fromkeys(point.title for point in sweeps):
        found.append(sweep_table(title, [point for point in sweeps if point.title == title]))
    if measured.accuracies:
        found.append(accuracy_table(measured.accuracies))
    if measured.tool_calls is not None:
        found.append(tool_call_table(measured.tool_calls))
    if measured.recomputed is not None:
        found.append(recompute_table(measured.recomputed))
    if measured.poisoned:
        found.append(poison_table(measured.poisoned))
    return tuple(found)


def latency_table(replayed: Sequence[Replayed]) -> Table:
    """Figure 9: the switching latency of every side by pattern and number of contexts."""
    return Table(
        title="switching latency in ms (LLMS, Fig. 9)",
        columns=(
            "pattern",
            "contexts",
            "side",
            "mean",
            "median",
            "p95",
            "switches",
            "tokens",
            "cached tokens",
        ),
        rows=tuple(
            (
                each.pattern,
                each.contexts,
                each.side,
                round(_MS * each.mean_s, 2),
                round(_MS * median(switch.seconds for switch in each.switches), 2),
                round(_MS * each.p95_s, 2),
                len(each.switches),
                sum(switch.tokens for switch in each.switches),
                sum(switch.cached_tokens for switch in each.switches),
            )
            for each in replayed
        ),
    )


def active_table(replayed: Sequence[Replayed]) -> Table:
    """Figure 10: how many contexts can be active within the limit, by side."""
    sides = dict.fromkeys(each.side for each in replayed)
    rows = []
    for side in sides:
        means = {
            each.contexts: each.mean_s for each in replayed if (each.side, each.pattern) == (side, "random")
        }
        if means:
            rows.append((side, round(active_contexts(means), 1), max(means)))
    return Table(
        title="active contexts at a mean latency of 25 ms (LLMS, Fig. 10)",
        columns=("side", "active contexts", "most that were tried"),
        rows=tuple(rows),
    )


def restart_table(restarts: Sequence[Restart]) -> Table:
    """How soon the first token comes after a restart."""
    return Table(
        title="time to the first token after a restart, in s",
        columns=(
            "tokens", "restored", "computed", "llama.cpp restored", "restored tokens", "equal first tokens",
            "MiB on disk", "MiB/s of the disk",
        ),
        rows=tuple(
            (
                each.tokens,
                round(median(each.restored_s), 3),
                round(median(each.computed_s), 3),
                round(median(each.llama_cpp_s), 3) if each.llama_cpp_s else None,
                each.cached_tokens,
                each.equal_answers,
                round(each.bytes_on_disk / 2**20, 1),
                None if each.bytes_a_second is None else round(each.bytes_a_second / 2**20),
            )
            for each in restarts
        ),
    )  # fmt: skip


def accuracy_table(accuracies: Sequence[Accuracy]) -> Table:
    """Figure 12: what contexts in fewer bits cost."""
    return Table(
        title="accuracy by stored bits (LLMS, Fig. 12)",
        columns=(
            "stored",
            "share of the bytes",
            "perplexity",
            "increase, %",
            "standard error, points",
            "equal likeliest tokens, %",
        ),
        rows=tuple(
            (
                each.name,
                round(each.bytes_share, 3),
                round(each.perplexity, 3),
                round(each.increase_pct, 2),
                round(each.standard_error_pct, 2),
                round(100 * each.agreement, 1),
            )
            for each in accuracies
        ),
    )


def tool_call_table(calls: ToolCalls) -> Table:
    """BFCL's tasks with computed and with compressed prompts."""
    return Table(
        title="tool calls with compressed prompts (BFCL)",
        columns=("tasks", "exact", "exact with compressed prompts", "restored tokens"),
        rows=((calls.tasks, calls.plain, calls.compressed, calls.restored_tokens),),
    )


def recompute_table(recomputed: Recomputed) -> Table:
    """A context of which every second chunk was lost."""
    return Table(
        title="recompute between loaded chunks, in float32",
        columns=("chunks", "loaded", "computed", "largest difference"),
        rows=((recomputed.blocks, recomputed.loaded, recomputed.recomputed, recomputed.max_abs_diff),),
    )


def poison_table(poisoned: Sequence[Poisoned]) -> Table:
    """Answers after files were damaged."""
    return Table(
        title="answers after damage, in float32",
        columns=("damage", "answers", "equal to those without contexts", "files set aside", "damaged chunks"),
        rows=tuple(
            (each.damage, each.completions, each.equal, each.refused_files, each.damaged_chunks)
            for each in poisoned
        ),
    )


def sweep_table(title: str, points: Sequence[SweepPoint]) -> Table:
    """The mean switching latency of several sides, in milliseconds, by one parameter."""
    sides = list(dict.fromkeys(side for point in points for side in point.means_s))
    return Table(
        title=title,
        columns=(points[0].parameter, *sides),
        rows=tuple(
            (
                point.value,
                *(round(_MS * point.means_s[side], 2) if side in point.means_s else None for side in sides),
            )
            for point in points
        ),
    )
