"""How long a question waits for its first token while digests are written in the background.

The same questions and the same background work on the same engine under two scheduling policies: in order of
arrival, as most engines serve, and agentrt's own, by which a request that a person waits for goes first.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from agentrt import Priority
from agentrt.runtime import LocalRuntime

from ..assistant.data import PersonalData
from ..assistant.services import Latencies
from ..personal_assistant import MOST_TOKENS, assistant_tools, system_prompt
from .view import DemoView

DIGESTS_AT_ONCE = 32
_TEXTS = 6  # of which each digest is written
_TEXT = 300  # characters of each
_DIGEST_TOKENS = 48
_PAUSE_S = 0.3  # before each question
_LONGEST_S = 10.0  # after which no further question is asked; a large model in order of arrival takes minutes


@dataclass(frozen=True)
class Waits:
    """The questions under one policy."""

    first_token_s: tuple[float, ...]
    """Seconds that each question waited for its first token."""
    digests: int
    """Digests that were completed meanwhile."""
    elapsed_s: float

    @property
    def median_s(self) -> float:
        return statistics.median(self.first_token_s)

    @property
    def digests_per_s(self) -> float:
        return self.digests / self.elapsed_s


async def measure_waits(
    runtime: LocalRuntime, data: PersonalData, questions: Sequence[str], policy: str, view: DemoView
) -> Waits:
    """Ask ``questions`` one after the other while digests of ``data`` are written without a pause.

    ``policy`` is what the view calls the policy of ``runtime``.
    """
    schemas = [convert_to_openai_tool(tool) for tool in assistant_tools(data, Latencies())]
    await _first_token(runtime, schemas, questions[0])  # reads the descriptions of the tools into the cache
    digests = _Digests(runtime, await asyncio.to_thread(_texts, data))
    began = time.perf_counter()
    writers = [asyncio.create_task(digests.write()) for _ in range(DIGESTS_AT_ONCE)]
    waits: list[float] = []
    try:
        for question in questions:
            if time.perf_counter() - began > _LONGEST_S:
                break
            view.background(policy, len(waits), len(questions))
            await asyncio.sleep(_PAUSE_S)
            waits.append(await _first_token(runtime, schemas, question))
        elapsed = time.perf_counter() - began
    finally:
        for writer in writers:
            writer.cancel()
        ended = await asyncio.gather(*writers, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):  # not a cancellation
            raise error
    view.background(policy, len(waits), len(waits))
    return Waits(tuple(waits), digests.done, elapsed)


class _Digests:
    """Requests for digests of mails, files and notes, each of other ones, so that no prefix cache helps."""

    def __init__(self, runtime: LocalRuntime, texts: Sequence[str]) -> None:
        self._runtime = runtime
        self._texts = itertools.cycle(texts)
        self.done = 0

    async def write(self) -> None:
        """Write digests until the task is cancelled."""
        while True:
            texts = "\n\n".join(itertools.islice(self._texts, _TEXTS))
            await self._runtime.agenerate(
                [{"role": "user", "content": f"Write a digest of this:\n\n{texts}"}],
                max_tokens=_DIGEST_TOKENS,
                priority=Priority.PROACTIVE,
            )
            self.done += 1


def _texts(data: PersonalData) -> list[str]:
    mails = [f"{mail.sender}: {mail.subject}. {mail.body}" for mail in data.mail.all()]
    files = [f"{path}: {data.files.read(path).text}" for path in data.files.all()]
    notes = [f"{note.title}: {note.text}" for note in data.notes.all()]
    return [text[:_TEXT] for text in [*mails, *files, *notes]]


async def _first_token(runtime: LocalRuntime, schemas: Sequence[dict[str, Any]], question: str) -> float:
    messages = [{"role": "system", "content": system_prompt(runtime)}, {"role": "user", "content": question}]
    generation = await runtime.agenerate(
        messages, tools=schemas, priority=Priority.REACTIVE, max_tokens=MOST_TOKENS
    )
    return generation.timing.time_to_first_token_s
