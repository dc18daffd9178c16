"""How often one of λ samples of a draft model is the main model's call (SpecTools §6.1), and its cost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentrt.calls import ToolCall, canonical_key
from agentrt.drafts import DraftCost, DraftRequest
from agentrt.errors import InvalidRequestError

from ..common.bench_model import BenchModel, open_given_models, title_of
from ..common.estimates import Estimate, bootstrap, exact, mean, median, share
from ..common.machine import describe_machine
from ..common.report import BenchReport, Cell, Seeds, Table
from .agent_runs import SYSTEM_PROMPT
from .controlled import cost_cells
from .model_tasks import ModelTask, bfcl_tasks, model_tasks

if TYPE_CHECKING:
    from agentrt.speculators import LocalSpeculator

_METHOD: Final = """\
{model} answers each request once, greedily; then {drafts} drafts the same turns with each number of \
samples, the first greedy, the others at a temperature of 0.7 in one batch. One model is open at a time \
and has all cores; no tool runs. The requests are BFCL's single-turn tasks with two to four tools that \
need one call (without a folder of workloads those with ten tools), and count where {model} calls a tool. \
The hit rate is \
the share of its calls that one of the samples equals, name and all arguments. hit_rate_gain is how much \
more it is with the most samples than with one, of the same requests. generation_s (G) and draft_s (g, one \
sample) are medians and include the prompt, which the drafts of the table find in the prefix cache. Wrong \
calls are different drafted calls that {model} did not make: tool runs for nothing. Tokens of a prompt count \
once for all of its samples. Intervals of 90 % are over the requests. Costs are at list prices of gpt-5 and \
gpt-5-nano of November 2025."""
_MAX_TOKENS: Final = 96
_SEEDS: Final = 1
_COLUMNS: Final = (
    *("drafts", "samples", "hit rate", "wrong calls a turn", "written tokens a turn", "draft s"),
    *("dollars per 100 turns", "added cost %"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work: requests of each seed, and numbers of samples."""

    requests: int
    samples: tuple[int, ...]


FULL: Final = Size(28, (1, 3, 5, 9))
QUICK: Final = Size(6, (1, 3))


@dataclass(frozen=True, slots=True)
class MainTurn:
    """A request for which the main model made calls; these are by their keys."""

    request: DraftRequest
    calls: frozenset[str]
    tokens: tuple[int, int]
    """Read and written."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Drafted:
    """What a number of samples drafted in a turn of the main model."""

    turn: MainTurn
    calls: frozenset[str]
    cost: DraftCost
    seconds: float

    @property
    def hits(self) -> int:
        return len(self.calls & self.turn.calls)


def hit_rate(drafted: Sequence[Drafted]) -> Estimate:
    """Return the share of the main model's calls that were drafted."""
    return share(sum(each.hits for each in drafted), sum(len(each.turn.calls) for each in drafted))


def hit_rate_gain(few: Sequence[Drafted], many: Sequence[Drafted]) -> Estimate:
    """Return how much higher the hit rate of ``many`` samples is than that of ``few`` in the same turns."""
    return bootstrap(
        list(zip(few, many, strict=True)),
        lambda pairs: (
            sum(more.hits - less.hits for less, more in pairs)
            / sum(len(less.turn.calls) for less, _ in pairs)
        ),
    )


def run_hit_rates(
    model: str,
    drafts: Sequence[str],
    *,
    quick: bool,
    seeds: Seeds,
    workloads: Path | None,
    progress: Callable[[str], None],
) -> BenchReport:
    """Measure draft models by their numbers of samples: GGUF files, directories or embedded names.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
    """
    from agentrt.speculators import LocalSpeculator

    size, machine, taken = QUICK if quick else FULL, describe_machine(), seeds.take(_SEEDS)
    count = size.requests * len(taken)
    tasks = bfcl_tasks(workloads, count, random.Random(taken[0])) if workloads else model_tasks(None, count)
    given = open_given_models({model, *drafts}, progress)
    turns = _main_turns(given[model], tasks, progress)
    figures = {"requests_with_calls": exact(len(turns))}
    rows: list[tuple[Cell, ...]] = []
    if turns:
        figures["generation_s"] = median([turn.seconds for turn in turns])
    for draft in drafts if turns else ():
        speculator = LocalSpeculator(given[draft].path)
        first, by_samples = asyncio.run(_draft_all(speculator, turns, size.samples, progress))
        rows += [(title_of(draft), samples, *_cells(each)) for samples, each in by_samples.items()]
        if draft == drafts[0]:
            few, many = by_samples[size.samples[0]], by_samples[size.samples[-1]]
            figures["draft_s"] = median([each.seconds for each in first])
            figures["hit_rate_1_sample"] = hit_rate(few)
            figures[f"hit_rate_{size.samples[-1]}_samples"] = hit_rate(many)
            figures["hit_rate_gain"] = hit_rate_gain(few, many)
    return BenchReport(
        bench="speculation_samples",
        machine=machine,
        figures=figures,
        tables=(Table(title="hit rate by samples a turn", columns=_COLUMNS, rows=tuple(rows)),),
        method=_METHOD.format(model=title_of(model), drafts=", ".join(map(title_of, drafts))),
    )


def _main_turns(
    model: BenchModel, tasks: Sequence[ModelTask], progress: Callable[[str], None]
) -> list[MainTurn]:
    """Let the main model answer each request; return those for which it called tools."""
    from agentrt.runtime import LocalRuntime

    turns = []
    with LocalRuntime.open(model.opened) as runtime:
        for number, task in enumerate(tasks, 1):
            progress(f"{model.title}, request {number} of {len(tasks)}")
            system = {"role": "system", "content": SYSTEM_PROMPT}
            request = DraftRequest([system, {"role": "user", "content": task.request}], task.schemas)
            answer = runtime.generate(
                request.messages, tools=request.tools, temperature=0, max_tokens=_MAX_TOKENS
            )
            if calls := _keys(answer.tool_calls):
                tokens = answer.usage.prompt_tokens, answer.usage.completion_tokens
                turns.append(MainTurn(request, calls, tokens, answer.timing.total_s))
    return turns


async def _draft_all(
    speculator: LocalSpeculator,
    turns: Sequence[MainTurn],
    samples: Sequence[int],
    progress: Callable[[str], None],
) -> tuple[list[Drafted], dict[int, list[Drafted]]]:
    """Return the first draft of each turn, which reads its prompt, and those by their number of samples."""
    first: list[Drafted] = []
    by_samples: dict[int, list[Drafted]] = {each: [] for each in samples}
    for number, turn in enumerate(turns, 1):
        progress(f"{speculator.name}, request {number} of {len(turns)}")
        first.append(await _draft(speculator, turn, 1))
        for each, drafted in by_samples.items():
            drafted.append(await _draft(speculator, turn, each))
    return first, by_samples


async def _draft(speculator: LocalSpeculator, turn: MainTurn, samples: int) -> Drafted:
    spent: list[DraftCost] = []
    given = turn.request
    request = DraftRequest(given.messages, given.tools, samples, spend=spent.append)
    began = time.perf_counter()
    calls = [call async for call in speculator.drafts(request)]
    return Drafted(turn, _keys(calls), sum(spent, DraftCost()), time.perf_counter() - began)


def _keys(calls: Iterable[ToolCall]) -> frozenset[str]:
    """Return the keys of calls, but for those whose arguments have none: these are never speculated."""
    found = set()
    for call in calls:
        with suppress(InvalidRequestError):
            found.add(canonical_key(call.name, call.arguments))
    return frozenset(found)


def _cells(drafted: Sequence[Drafted]) -> tuple[Cell, ...]:
    """Return the cells of a row from the hit rate on."""
    turns = len(drafted)
    costs = [each.cost for each in drafted]
    draft = (
        sum(each.input_tokens for each in costs) / turns,
        sum(each.output_tokens for each in costs) / turns,
    )
    main = (
        sum(each.turn.tokens[0] for each in drafted) / turns,
        sum(each.turn.tokens[1] for each in drafted) / turns,
    )
    return (
        hit_rate(drafted),
        mean([len(each.calls) - each.hits for each in drafted]),
        mean([each.output_tokens for each in costs]),
        mean([each.seconds for each in drafted]),
        *cost_cells(draft, main),
    )
