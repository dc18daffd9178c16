"""Running a recording again, with speculation or without, at other speeds, in virtual time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from ..calls import ToolCall, canonical_key
from ..config import SpeculationConfig
from ..drafts import DraftRequest, Speculator
from ..errors import NotRecordedError, RecordedToolError
from ..reports.events import SpeculationObserver
from ..reports.recording import RecordedAnswer, RecordedCall, Recording
from ..reports.report import SpeculationReport
from ..tools.speculable import Invocation, SpeculableOptions, SpeculableTool
from ..turns.session import SpeculationSession
from .virtual_time import run_in_virtual_time


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay came to. ``recording`` is equal to the one replayed, but for times, if all went well."""

    recording: Recording
    seconds: float
    report: SpeculationReport


class RecordedSpeculator:
    """Guesses the recorded calls with a given chance each, and otherwise a call like it that was not made.

    The guesses depend on the seed only, so that the same turns are guessed right at any speed.
    """

    def __init__(self, recording: Recording, *, claim_rate: float, seed: int, delay: float = 0.0) -> None:
        """``claim_rate`` is the chance of a right guess (SpecTools' alpha), ``delay`` its seconds (g)."""
        self.name = f"recorded, right {claim_rate:.0%}"
        self._delay = delay
        self._guesses: dict[str, list[ToolCall]] = {}
        chance = random.Random(seed)
        for turn in recording.turns:
            self._guesses[_history(turn.messages)] = [
                call if chance.random() < claim_rate else _unlike(call) for call in turn.requested
            ]

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the guesses for the turn with this history."""
        await anyio.sleep(self._delay)
        for guess in self._guesses.get(_history(request.messages), ()):
            yield guess


def replay(
    recording: Recording,
    predictors: Sequence[Speculator] = (),
    *,
    writes: Collection[str] = (),
    seed: int | None = None,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
) -> Replayed:
    """Let the recorded model and tools go through the run again, in virtual time.

    Each turn is asked as it was recorded, and its calls are made as they were; a tool says what it said then,
    in the state of the world it was then in. ``writes`` names the tools that change that state: they are not
    run early, and make what others read before them out of date. Without ``predictors`` nothing is guessed.
    With a ``seed``, model and tools take random times instead of the recorded ones.

    Raises:
        NotRecordedError: a call was answered as it cannot have been; the recording has been changed, or
            speculation is broken.
    """
    return run_in_virtual_time(lambda: _Replay(recording, writes, seed).run(predictors, config, observers))


class _Replay:
    def __init__(self, recording: Recording, writes: Collection[str], seed: int | None) -> None:
        self._recording = recording
        self._writes = writes
        self._chance = None if seed is None else random.Random(seed)
        self._version = 0
        self._results: dict[tuple[str, int], RecordedCall] = {}
        version = 0
        for call in (call for turn in recording.turns for call in turn.calls):
            self._results.setdefault((_key(call), version), call)
            version += call.name in writes

    async def run(
        self,
        predictors: Sequence[Speculator],
        config: SpeculationConfig | None,
        observers: Sequence[SpeculationObserver],
    ) -> Replayed:
        names = sorted({call.name for turn in self._recording.turns for call in turn.calls})
        tools = [_ReplayedTool(name, self._say, self._writes) for name in names if name not in self._writes]
        turns = []
        began = anyio.current_time()
        async with SpeculationSession(tools, predictors, config=config, observers=observers) as session:
            for turn in self._recording.turns:
                answer = await session.ask(self._model(turn), turn.messages, [])
                calls = [await self._make(session, call) for call in turn.calls]
                turns.append(RecordedAnswer(messages=turn.messages, answer=dict(answer), calls=tuple(calls)))
        return Replayed(Recording(turns=tuple(turns)), anyio.current_time() - began, session.report())

    def _model(self, turn: RecordedAnswer) -> Callable[..., Any]:
        async def answer(messages: Sequence[Mapping[str, Any]], tools: Any) -> Mapping[str, Any]:
            # Asked ahead of its turn, the model may see a history that did not come about.
            known = {_history(each.messages): each for each in self._recording.turns}
            asked = turn if messages == list(turn.messages) else known.get(_history(messages))
            await self._take(turn.seconds)
            if asked is None:
                raise NotRecordedError("the model was never asked this. Record the run again.")
            return asked.answer

        return answer

    async def _make(self, session: SpeculationSession, call: RecordedCall) -> RecordedCall:
        asked = ToolCall(call.name, call.arguments, call.id)
        try:
            if call.name in self._writes:
                try:
                    result = await self._say(call.name, call.arguments)
                finally:
                    self._version += 1
            else:
                result = await session.acall(asked)
        except RecordedToolError as error:
            return call.model_copy(update={"result": "", "error": str(error)})
        return call.model_copy(update={"result": result, "error": None})

    async def _say(self, name: str, arguments: Mapping[str, Any]) -> str:
        said = self._results.get((canonical_key(name, arguments), self._version))
        await self._take(0.0 if said is None else said.seconds)
        if said is None:
            raise NotRecordedError(f"{name} was never called so. Record the run again.")
        if said.error is not None:
            raise RecordedToolError(said.error)
        return said.result

    async def _take(self, seconds: float) -> None:
        await anyio.sleep(seconds if self._chance is None else self._chance.choice(_TIMES))


_TIMES = (0.0, 0.1, 0.5, 1.0, 1.5, 4.0)  # some equal, so that what may happen at once does


class _ReplayedTool:
    def __init__(self, name: str, say: Callable[..., Any], writes: Collection[str]) -> None:
        async def run(arguments: Mapping[str, Any]) -> str:
            result: str = await say(name, arguments)
            return result

        self.__speculable__ = SpeculableTool(
            name,
            bind=lambda arguments: Invocation(kwargs={"arguments": dict(arguments)}),
            call=None,
            acall=run,
            options=SpeculableOptions(
                canonical=lambda arguments: arguments, invalidated_by=tuple(writes), ttl=3600, timeout=3600
            ),
        )


def _key(call: RecordedCall) -> str:
    return canonical_key(call.name, call.arguments)


def _history(messages: Sequence[Mapping[str, Any]]) -> str:
    """What tells the turns of a run apart: all that was said, without ids."""
    return repr([(each["role"], each.get("content") or "", _functions(each)) for each in messages])


def _functions(message: Mapping[str, Any]) -> list[Any]:
    return [call["function"] for call in message.get("tool_calls") or ()]


def _unlike(call: ToolCall) -> ToolCall:
    return ToolCall(call.name, {**call.arguments, "not": "this"})
