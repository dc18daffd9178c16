"""The tables of the drafting bench: every set and side, and the paper's tables and figures drawn again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..common.repetitions import spread_cells, spread_columns
from ..common.report import Cell, Table
from .agent_turns import AgentTurn
from .comparison import SetResult
from .sides import OURS, PROMPT_LOOKUP, SAM, VANILLA


def sides_table(results: Sequence[SetResult]) -> Table:
    """Every side on every set."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for side in result.answers:
            speedups = result.speedups(side)
            spread = spread_cells(speedups, 2) if speedups else (None, None, None)
            known = any(each.passes for each in result.answers[side])
            rows.append(
                (
                    result.name,
                    side,
                    round(result.ms_per_token(side), 2),
                    round(result.speedup(side), 2),
                    *spread,
                    round(result.tokens_a_pass(side), 2) if known else None,
                    round(result.verified_a_pass(side), 2) if known else None,
                    round(result.drafting_ms_a_pass(side), 3) if known else None,
                    f"{result.equal_answers(side)} of {len(result.answers[side])}",
                )
            )
    return Table(
        title="decoding by set and side",
        columns=(
            "set", "side", "ms a token", "speedup", *spread_columns("of a prompt"), "tokens a pass",
            "verified a pass", "drafting ms a pass", "answers equal to vanilla's",
        ),
        rows=tuple(rows),
    )  # fmt: skip


def latency_table(results: Sequence[SetResult]) -> Table:
    """Figure 10: the decode time of a token by set, in milliseconds."""
    sides = list(dict.fromkeys(side for result in results for side in result.answers))
    return Table(
        title="ms a token by set (sd.npu, Fig. 10)",
        columns=("set", *sides),
        rows=tuple(
            (
                result.name,
                *(round(result.ms_per_token(side), 2) if side in result.answers else None for side in sides),
            )
            for result in results
        ),
    )


def ablation_table(model: str, results: Sequence[SetResult], sides: Sequence[str]) -> Table:
    """Table 3: the mean decode time of a token in the context-heavy sets, in milliseconds."""
    means = (sum(result.ms_per_token(side) for result in results) / len(results) for side in sides)
    return Table(
        title="ablation, ms a token in the context-heavy sets (sd.npu, Table 3)",
        columns=("model", *sides),
        rows=((model, *(round(mean, 2) for mean in means)),),
    )


def acceptance_table(results: Sequence[SetResult], at_width: str, sam_at_equal: Sequence[float]) -> Table:
    """Table 4: tokens a forward pass by set; ``at_width`` is our side of fixed width, beside SAM's."""
    rows = [
        (
            result.name,
            round(result.tokens_a_pass(PROMPT_LOOKUP), 2),
            round(result.tokens_a_pass(SAM), 2),
            round(result.tokens_a_pass(OURS), 2),
            round(result.tokens_a_pass(at_width), 2),
            round(result.verified_a_pass(at_width), 2),
            round(sam, 2),
            round(result.tokens_a_pass(at_width) / sam, 2),
        )
        for result, sam in zip(results, sam_at_equal, strict=True)
    ]
    return Table(
        title="tokens a forward pass (sd.npu, Table 4)",
        columns=(
            "set", PROMPT_LOOKUP, SAM, OURS, at_width, "verified a pass", "SAM at as many (replay)", "ratio",
        ),
        rows=tuple(rows),
    )  # fmt: skip


def breakdown_table(results: Sequence[SetResult]) -> Table:
    """Figure 13: where the time of a request goes, the mean over a set's prompts, in milliseconds."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for side in (VANILLA, OURS):
            answers = result.answers[side]
            drafting = 1e3 * sum(each.drafting_s for each in answers) / len(answers)
            decoding = 1e3 * sum(each.decode_s for each in answers) / len(answers)
            prefill = 1e3 * result.prefill_s / len(answers)
            rows.append((result.name, side, round(prefill), round(decoding - drafting), round(drafting, 1)))
    return Table(
        title="a request's time in ms (sd.npu, Fig. 13)",
        columns=("set", "side", "prefill", "decode", "drafting"),
        rows=tuple(rows),
    )


def repetitions_table(measured: Mapping[str, Sequence[float]]) -> Table:
    """The spread of the figures that are medians of repetitions, by figure."""
    return Table(
        title="repetitions",
        columns=("figure", "median", "min", "max", "repetitions"),
        rows=tuple(
            (figure, *spread_cells(values, 3), len(values)) for figure, values in measured.items() if values
        ),
    )


def agent_table(turns: Sequence[AgentTurn]) -> Table:
    """Each turn of the recorded agents, prefill included."""
    return Table(
        title="an agent's turns, prefill included",
        columns=("conversation", "vanilla s", "ours s", "share of vanilla's time behind the first token"),
        rows=tuple(
            (
                each.conversation,
                round(each.vanilla_s, 3),
                round(each.ours_s, 3),
                round(each.decode_share, 2),
            )
            for each in turns
        ),
    )
