"""What one request has shown, plain and speculating, and what many show together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentrt.reports.report import SpeculationReport

from ..common.estimates import Estimate, bootstrap, mean
from ..common.report import Cell
from .agent_runs import AgentRun
from .controlled import cost_cells


class Counts(NamedTuple):
    """What a report counts in total."""

    claims: int
    misses: int
    drafts: int
    correct: int
    draft_read: int
    draft_written: int


def counts_of(model: Any) -> Counts:
    """Return what the report of a speculating chat model counts so far."""
    from agentrt.adapters.langchain import report_of

    report: SpeculationReport = report_of(model)
    used = list(report.predictors.values())
    return Counts(
        report.total.claims,
        report.total.misses,
        sum(each.drafts for each in used),
        sum(each.correct for each in used),
        sum(each.input_tokens for each in used),
        sum(each.output_tokens for each in used),
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, plain and under one setting, and what the setting's report counts for it."""

    source: str
    """Where the request is from."""
    plain: AgentRun
    fast: AgentRun
    engine_side: bool
    counts: Counts

    @property
    def saved_pct(self) -> float:
        return 100 * (1 - self.fast.seconds / self.plain.seconds)

    @property
    def more_tokens_per_second(self) -> float:
        return self.fast.tokens_per_second - self.plain.tokens_per_second

    @property
    def is_equal(self) -> bool:
        if self.engine_side:
            return self.plain.answer == self.fast.answer
        return self.plain.transcript == self.fast.transcript


def saved(asked: Sequence[Asked]) -> Estimate:
    """Return the mean percentage of its time that each request saved (SpecTools §5)."""
    return mean([one.saved_pct for one in asked])


def claim_rate(asked: Sequence[Asked]) -> Estimate | None:
    """Return claimed by all calls of speculable tools; None without any."""
    calling = [one for one in asked if one.counts.claims + one.counts.misses]
    return bootstrap(calling, _claimed) if calling else None


def _claimed(asked: Sequence[Asked]) -> float:
    claims = sum(one.counts.claims for one in asked)
    return claims / (claims + sum(one.counts.misses for one in asked))


def right_drafts(asked: Sequence[Asked]) -> Estimate | None:
    """Return correct by all drafts; None without any."""
    drafted = [one for one in asked if one.counts.drafts]
    return bootstrap(drafted, _correct) if drafted else None


def _correct(asked: Sequence[Asked]) -> float:
    return sum(one.counts.correct for one in asked) / sum(one.counts.drafts for one in asked)


def sample_cells(asked: Sequence[Asked]) -> tuple[Cell, ...]:
    """Return the cells of ``SAMPLE_COLUMNS`` from the claim rate on."""
    turns = sum(len(one.fast.generations) + 1 for one in asked)
    read = sum(one.counts.draft_read for one in asked) / turns
    written = sum(one.counts.draft_written for one in asked) / turns
    main = (sum(each) / turns for each in zip(*(one.plain.tokens for one in asked), strict=True))
    more = mean([one.more_tokens_per_second for one in asked])
    costs = cost_cells((read, written), (next(main), next(main)))
    return (claim_rate(asked), more, saved(asked), *costs)
