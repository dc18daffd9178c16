"""One repetition of the tool cache bench: every side does the same tasks, interleaved."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from agentrt.drafts import Speculator

from .agents import Agent, Done
from .clients import Clients
from .server import BenchServer
from .sides import Side
from .tasks import Task
from .tools import ChancePredictor, TaskTools


@dataclass(frozen=True, slots=True)
class Case:
    """A side at a probability of a right draft (SpecTools' alpha)."""

    side: Side
    alpha: float = 1.0
    """Of drafts that are made by chance; without meaning where ``draft`` is set."""
    draft: str | None = None
    """The draft model, if one drafts."""


@dataclass(slots=True)
class Repetition:
    """What one repetition has measured: of each case, the results of the tasks, in their order."""

    tasks: Sequence[Task]
    done: dict[Case, list[Done]] = field(default_factory=dict)

    def of(self, side: Side, alpha: float = 1.0) -> list[Done]:
        """Return the results of a case; of a side that does not speculate, those at alpha 1."""
        return self.done[Case(side, alpha if side.speculates else 1.0)]

    def seconds(self, side: Side, alpha: float = 1.0) -> float:
        """Return the seconds of all tasks of a case."""
        return sum(one.elapsed_s for one in self.of(side, alpha))


async def repeat(
    server: BenchServer,
    clients: Clients,
    tasks: Sequence[Task],
    cases: Sequence[Case],
    seed: str,
    drafts: Mapping[str, Speculator] = MappingProxyType({}),
) -> Repetition:
    """Run each task in all ``cases`` before the next task, in an order that ``seed`` draws anew.

    The machine's speed drifts within seconds: cases that are measured one after the other cannot be compared.
    ``drafts`` are the draft models of the cases that have one, by name.
    """
    drawn = random.Random(seed)
    tools = TaskTools(tasks)

    def predictor(case: Case) -> Speculator:
        if case.draft is not None:
            return drafts[case.draft]
        return ChancePredictor(tasks, case.alpha, seed)

    agents = {case: Agent(clients, case.side, tools, predictor(case)) for case in cases}
    measured = Repetition(tasks, {case: [] for case in cases})
    for task in tasks:
        await _warm(clients, task)
        for case in drawn.sample(list(cases), len(cases)):
            server.use(case.side.optimizations)
            measured.done[case].append(await agents[case].do(task))
    return measured


async def _warm(clients: Clients, task: Task) -> None:
    """Let the server compile the task's grammar, which it keeps."""
    await clients.plain.chat.completions.create(
        model=clients.model, messages=[{"role": "user", "content": "Hello!"}], tools=task.tools, max_tokens=1
    )
