"""The gateway bench: what three replicas with shared outputs add, lose and repeat."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from .agents import Agents, Answer, Question, Totals, chunks_of
from .engine import BenchEngine
from .faulty_balancer import FaultyBalancer
from .processes import ListeningProcess, new_token, replicas_before

_REPLICAS: Final = 3
_AT_ONCE: Final = 8
"""Tasks in progress."""
_THINKING_S: Final = 0.3
_TIMEOUT_S: Final = 120.0
_REFUSED: Final = 0.05
_BROKEN_OFF: Final = 0.02
_CITIES: Final = ("Oslo", "Rome", "Lima", "Bern", "Paris", "Lisbon", "Bergen", "Cairo", "Berlin", "Vienna")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    pairs: int
    tasks: int
    """Of each part."""


SIZES: dict[bool, Size] = {True: Size(20, 150), False: Size(100, 1000)}


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds from a request to the first token and to the end of its answer."""

    first_s: float
    end_s: float


_METHOD: Final = """\
`agentrt gateway` stands before `agentrt serve` with the nano model in f32, each in a process of its own on \
one machine, with a Redis or Valkey server; `agentrt serve` stands for vLLM, and its own tool cache is not \
used. added_ms_p50: the time to the first token of a streamed answer that ends in a call, by a gateway less \
without it, alternately and one at a time; median of {pairs} differences; added_ms_at_the_end_p50: the same \
for the end of the answer, on a machine whose cores the model needs. For all else {replicas} replicas with \
one token file stand before a balancer that relays to the engine, and holds the events of each answer back \
for {thinking} s, as a larger model would. Clients send each request to a random replica, and to another one \
if the connection is refused. A task is a question whose tool output is submitted, to a random replica, once \
the stream's id is known; a stream that breaks off is asked for again; {at_once} are in progress. One \
replica is killed (SIGKILL) after a third of {tasks} tasks: claimed_fraction_one_replica_killed is claimed \
over submitted outputs, those to streams of the killed replica included. In {tasks} tasks before that, with \
all replicas, the balancer answers {refused} % of requests with a 503 and breaks {broken_off} % of answers \
off after their first event. streams_repeated counts the answers to one request of a client that the engine \
began twice; wrong_results those answers that are not the answer of a client which runs the tool itself."""

Progress = Callable[[str], None]


def run(*, quick: bool, workloads: Path | None, progress: Progress) -> BenchReport:
    """Run the bench; there are no ``workloads`` for it.

    Raises:
        ConfigurationError: this machine has neither valkey-server nor redis-server.
        BenchProcessError: a process died.
    """
    return asyncio.run(_run(SIZES[quick], progress))


async def _run(size: Size, progress: Progress) -> BenchReport:
    machine, drawn, token = describe_machine(), random.Random(0), new_token()
    headers = {"authorization": f"Bearer {token}"}
    with BenchEngine() as engine:
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_S))
            answers = await plain_answers(http, engine.port, progress)
            with replicas_before(f"http://127.0.0.1:{engine.port}", 1, token) as (gateway,):
                progress(f"{size.pairs} answers with and without a gateway")
                first_s, end_s = await added_s(http, answers, gateway.port, engine.port, size.pairs)
            balancer = await stack.enter_async_context(FaultyBalancer(engine.port, drawn))
            address = f"http://127.0.0.1:{balancer.port}"
            replicas = stack.enter_context(replicas_before(address, _REPLICAS, token))
            # A connection that is kept to a killed replica would fail.
            unkept = httpx.Limits(max_keepalive_connections=0)
            clients = httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_S, limits=unkept)
            agents = Agents(await stack.enter_async_context(clients), [each.port for each in replicas], drawn)
            balancer.thinking_s = _THINKING_S
            balancer.refused, balancer.broken_off = _REFUSED, _BROKEN_OFF
            progress(f"{size.tasks} tasks before an engine that refuses requests and breaks answers off")
            parts = {"refusing and breaking engine": await do_tasks(agents, answers, size.tasks, drawn)}
            balancer.refused = balancer.broken_off = 0.0
            progress(f"{size.tasks} tasks, with a replica killed after a third of them")
            parts["one replica killed"] = await do_tasks(agents, answers, size.tasks, drawn, replicas[0])
    killed = parts["one replica killed"]
    return BenchReport(
        bench="gateway",
        machine=machine,
        figures={
            "added_ms_p50": 1000 * first_s,
            "added_ms_at_the_end_p50": 1000 * end_s,
            "claimed_fraction_one_replica_killed": killed.claimed / killed.submissions,
            "wrong_results": sum(part.wrong for part in parts.values()),
            "streams_repeated": balancer.repeated,
        },
        tables=(_table(parts), _faults_table(balancer)),
        method=_METHOD.format(
            replicas=_REPLICAS,
            pairs=size.pairs,
            tasks=size.tasks,
            at_once=_AT_ONCE,
            thinking=_THINKING_S,
            refused=round(100 * _REFUSED),
            broken_off=round(100 * _BROKEN_OFF),
        ),
    )


async def plain_answers(http: httpx.AsyncClient, port: int, progress: Progress) -> dict[Question, str]:
    """Return questions that the engine at ``port`` answers by one call, and the answers to a plain client."""
    model = (await http.get(f"http://127.0.0.1:{port}/v1/models")).json()["data"][0]["id"]
    answers = {}
    for number, city in enumerate(_CITIES):
        output = json.dumps({"temperature": 3 * number - 7, "sky": "clear" if number % 2 else "cloudy"})
        question = Question(model, city, output)
        first, _ = await _whole(http, port, question.request())
        if len(first.calls) == 1 and json.loads(first.calls[0]["function"]["arguments"]) == {"city": city}:
            second, _ = await _whole(http, port, question.request(*question.turn(first.calls[0])))
            answers[question] = second.text
    progress(f"{len(answers)} of {len(_CITIES)} questions")
    return answers


async def added_s(
    http: httpx.AsyncClient, questions: Iterable[Question], gateway: int, engine: int, pairs: int
) -> tuple[float, float]:
    """Return the median seconds by which a gateway delays the first token of an answer, and its end."""
    first, end = [], []
    for question in itertools.islice(itertools.cycle(questions), pairs + 1):
        _, with_gateway = await _whole(http, gateway, question.request())
        _, without = await _whole(http, engine, question.request())
        first.append(with_gateway.first_s - without.first_s)
        end.append(with_gateway.end_s - without.end_s)
    return statistics.median(first[1:]), statistics.median(end[1:])  # the first opens connections


async def do_tasks(
    agents: Agents,
    answers: Mapping[Question, str],
    count: int,
    drawn: random.Random,
    killed: ListeningProcess | None = None,
) -> Totals:
    """Do ``count`` tasks, some at once; after a third of them, kill the replica ``killed``."""
    totals, questions, third = Totals(), [*answers], asyncio.Event()

    async def work() -> None:
        while totals.tasks < count:
            question = drawn.choice(questions)
            await agents.ask(question, answers[question], totals)
            if totals.tasks >= count // 3:
                third.set()

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
        await third.wait()
        if killed is not None:
            killed.kill()
    return totals


async def _whole(http: httpx.AsyncClient, port: int, body: dict[str, Any]) -> tuple[Answer, _Times]:
    """Return an answer, and when it came."""
    began, answer, first_s = time.perf_counter(), Answer(), 0.0
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with http.stream("POST", url, json=body) as response:
        async for chunk in chunks_of(response):
            for choice in chunk["choices"]:
                answer.add(choice["delta"])
            if not first_s and (answer.text or answer.calls):
                first_s = time.perf_counter() - began
    return answer, _Times(first_s, time.perf_counter() - began)


def _table(parts: dict[str, Totals]) -> Table:
    columns = ("part", "tasks", "submitted", "claimed", "claimed %", "broken off", "wrong")
    rows = [
        (
            name,
            part.tasks,
            part.submissions,
            part.claimed,
            round(100 * part.claimed / part.submissions, 2),
            part.broken,
            part.wrong,
        )
        for name, part in parts.items()
    ]
    return Table(title="tasks by replicas that share outputs", columns=columns, rows=tuple(rows))


def _faults_table(balancer: FaultyBalancer) -> Table:
    rows = tuple((name, count) for name, count in sorted(balancer.faults.items()))
    return Table(title="faults of the engine's balancer", columns=("fault", "answers"), rows=rows)
