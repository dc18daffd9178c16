"""The figures and tables of the tool cache bench, from its repetitions."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from ..common.repetitions import spread_cells, spread_columns
from ..common.report import Cell, Table
from .agents import Done
from .attainment import Prediction, attainments
from .repetition import Case, Repetition
from .sides import (
    CLIENT_SIDE,
    ENGINE_SIDE,
    ENGINE_SIDES,
    O2_ONLY,
    O3_ONLY,
    PREFIX_CACHED,
    SIDES,
    UNUSED,
    VANILLA,
    Side,
)

Figures = Mapping[str, float]


def task_figures(short: Repetition, predicted: Sequence[Prediction]) -> dict[str, float]:
    """Return the figures of one repetition with short tools."""
    fitting = [number for number, each in enumerate(predicted) if each.fits]
    cached, engine = short.of(PREFIX_CACHED), short.of(ENGINE_SIDE)
    reasoning = [
        sum(one.reasoned_s for one, each in zip(done, predicted, strict=True) if each.reasons)
        for done in (cached, engine)
    ]
    cached_s = short.seconds(PREFIX_CACHED)
    extra = short.seconds(CLIENT_SIDE) - short.seconds(ENGINE_SIDE)
    return {
        **attainments(short, predicted),
        "extra_time_saved_pct_over_client_side": 100 * extra / short.seconds(VANILLA),
        "engine_alpha0_slowdown_pct": 100 * (short.seconds(ENGINE_SIDE, 0.0) / cached_s - 1),
        **({"reasoning_slowdown_pct": 100 * (reasoning[1] / reasoning[0] - 1)} if reasoning[0] else {}),
        **_milliseconds(
            "o2_call_ms_saved", short, fitting, [(UNUSED, O2_ONLY), (O3_ONLY, ENGINE_SIDE)], _call_s
        ),
        **_milliseconds(
            "o3_reentry_ms_saved", short, fitting, [(UNUSED, O3_ONLY), (O2_ONLY, ENGINE_SIDE)], _reentry_s
        ),
    }


def _call_s(done: Done) -> float:
    return done.call_s


def _reentry_s(done: Done) -> float:
    return done.reentry_s


def _milliseconds(
    name: str,
    measured: Repetition,
    tasks: Sequence[int],
    pairs: Sequence[tuple[Side, Side]],
    seconds: Callable[[Done], float],
) -> dict[str, float]:
    """Return the median of what the second side of each pair saves, over ``tasks``; nothing of no tasks."""
    saved = [
        seconds(measured.of(without)[task]) - seconds(measured.of(with_it)[task])
        for without, with_it in pairs
        for task in tasks
    ]
    return {name: 1000 * statistics.median(saved)} if saved else {}


def medians(repetitions: Sequence[Figures]) -> dict[str, float]:
    """Return the median of each figure over the repetitions that have it."""
    return {name: statistics.median(values) for name, values in _by_name(repetitions).items()}


def spread_table(repetitions: Sequence[Figures]) -> Table:
    """Return the spread of the figures over the repetitions."""
    return Table(
        title="figures over the repetitions",
        columns=("figure", "median", "min", "max", "repetitions"),
        rows=tuple(
            (name, *spread_cells(values, 4), len(values)) for name, values in _by_name(repetitions).items()
        ),
    )


def _by_name(repetitions: Sequence[Figures]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for figures in repetitions for name in figures)
    return {name: [figures[name] for figures in repetitions if name in figures] for name in names}


def tokens_identical(repetitions: Sequence[Repetition]) -> bool:
    """Whether the model has said the same on all sides, in every task."""
    return all(
        len({done.transcript for done in of_a_task}) == 1
        for measured in repetitions
        for of_a_task in zip(*measured.done.values(), strict=True)
    )


def sides_table(repetitions: Mapping[str, Sequence[Repetition]]) -> Table:
    """Return the time a task of each side with right drafts, by the latency of the tools."""
    columns = (
        "tools",
        "side",
        *spread_columns("seconds a task"),
        *spread_columns("time saved, % of vanilla"),
    )
    rows = [
        (
            tools,
            side.name,
            *_seconds_a_task(each, Case(side)),
            *_saved(each, Case(side)),
            _answered(each, Case(side)),
        )
        for tools, each in repetitions.items()
        for side in SIDES
    ]
    return Table(
        title="time a task (Figure 8)", columns=(*columns, "answered in the engine"), rows=tuple(rows)
    )


def optimizations_table(short: Sequence[Repetition], alphas: Sequence[float]) -> Table:
    """Return what O2 and O3 add to the client's speculation, at equal probabilities of a right draft."""
    columns = ("alpha", "side", *spread_columns("ms from reasoning to end"), "ms of the call", "ms to resume")
    rows: list[tuple[Cell, ...]] = []
    for alpha in alphas:
        for side in (CLIENT_SIDE, *ENGINE_SIDES):
            case = Case(side, alpha)
            if case not in short[0].done:
                continue
            done = [one for each in short for one in each.done[case]]
            tails = [
                1000 * statistics.fmean(one.after_reasoning_s for one in each.done[case]) for each in short
            ]
            milliseconds = [1000 * statistics.median(map(of, done)) for of in (_call_s, _reentry_s)]
            rows.append(
                (
                    alpha,
                    side.name,
                    *spread_cells(tails, 2),
                    *milliseconds,
                    *_saved(short, case),
                    _answered(short, case),
                )
            )
    return Table(
        title="what O2 and O3 add, short tools",
        columns=(*columns, *spread_columns("time saved, % of vanilla"), "answered in the engine"),
        rows=tuple(rows),
    )


def drafts_table(short: Sequence[Repetition]) -> Table:
    """Return the time a task of the sides that speculate with draft models."""
    rows: list[tuple[Cell, ...]] = [
        (
            case.draft,
            case.side.name,
            *_seconds_a_task(short, case),
            *_saved(short, case),
            _answered(short, case),
        )
        for case in short[0].done
        if case.draft is not None
    ]
    return Table(
        title="draft models, short tools",
        columns=(
            *("drafts", "side"),
            *spread_columns("seconds a task"),
            *spread_columns("time saved, % of vanilla"),
            "answered in the engine",
        ),
        rows=tuple(rows),
    )


def _seconds_a_task(repetitions: Sequence[Repetition], case: Case) -> tuple[float, float, float]:
    means = [statistics.fmean(one.elapsed_s for one in each.done[case]) for each in repetitions]
    return spread_cells(means, 4)


def _saved(repetitions: Sequence[Repetition], case: Case) -> tuple[float, float, float]:
    saved = [
        100 * (1 - sum(one.elapsed_s for one in each.done[case]) / each.seconds(VANILLA))
        for each in repetitions
    ]
    return spread_cells(saved, 2)


def _answered(repetitions: Sequence[Repetition], case: Case) -> float:
    return statistics.fmean(one.in_engine for each in repetitions for one in each.done[case])
