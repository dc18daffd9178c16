"""Replays of recordings in virtual time, with or without speculation, at recorded or other speeds."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from ..calls import ToolCall, canonical_key
from ..config import SpeculationConfig
from ..drafts import DraftRequest, Speculator
from ..errors import NotRecordedError
from ..reports.events import SpeculationObserver
from ..reports.recording import RecordedAnswer, RecordedCall, Recording
from ..reports.report import SpeculationReport
from ..tools.speculable_tool import Invocation, SpeculableOptions, SpeculableTool
from ..turns.session import SpeculationSession
from .virtual_time import run_in_virtual_time


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay. If it is correct, ``recording`` equals the replayed one but for times."""

    recording: Recording
    seconds: float
    report: SpeculationReport


class RecordedSpeculator:
    """Predicts each recorded call with a given chance, and otherwise a similar call that was not made.

    The drafts depend on the seed only, so that the same drafts are right at any speed.
    """

    def __init__(self, recording: Recording, *, claim_rate: float, seed: int, delay: float = 0.0) -> None:
        """``claim_rate`` is the chance of a right draft (SpecTools' alpha), ``delay`` its seconds (g)."""
        self.name = f"recorded, right {claim_rate:.0%}"
        self._delay = delay
        self._drafts: dict[str, list[ToolCall]] = {}
        chance = random.Random(seed)
        for turn in recording.turns:
            self._drafts[_history(turn.messages)] = [
                call
                if chance.random() < claim_rate
                else ToolCall(call.name, {**call.arguments, "not": "this"})
                for call in turn.requested
            ]

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the drafts for the turn with this history."""
        await anyio.sleep(self._delay)
        for draft in self._drafts.get(_history(request.messages), ()):
            yield draft


def replay(
    recording: Recording,
    predictors: Sequence[Speculator] = (),
    *,
    writes: Collection[str] = (),
    seed: int | None = None,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
) -> Replayed:
    """Run the recorded model and tools again, in virtual time.

    Each turn's request is sent as recorded, and its calls are made as recorded; a tool returns what it
    returned in the same state of the world. ``writes`` names the tools that change that state: they are not
    run speculatively, and earlier results of other tools are outdated by them. Without ``predictors`` nothing
    is speculated. With a ``seed``, model and tools take random times instead of the recorded ones.

    Raises:
        NotRecordedError: the replay needs a call or state that was not recorded: the recording was changed,
            or speculation is broken.
    """
    return run_in_virtual_time(lambda: _Replay(recording, writes, seed).run(predictors, config, observers))


class _RecordedToolError(Exception):
    """The error of a tool in the recorded run."""


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
        tools = [
            _ReplayedTool(name, self._result_of, self._writes) for name in names if name not in self._writes
        ]
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
            # A request sent ahead may have a history that was not recorded.
            known = {_history(each.messages): each for each in self._recording.turns}
            found = turn if messages == list(turn.messages) else known.get(_history(messages))
            await self._take(turn.seconds)
            if found is None:
                raise NotRecordedError("this model request was not recorded. Record the run again.")
            return found.answer

        return answer

    async def _make(self, session: SpeculationSession, call: RecordedCall) -> RecordedCall:
        requested = ToolCall(call.name, call.arguments, call.id)
        try:
            if call.name in self._writes:
                try:
                    result = await self._result_of(call.name, call.arguments)
                finally:
                    self._version += 1
            else:
                result = await session.acall(requested)
        except _RecordedToolError as error:
            return call.model_copy(update={"result": "", "error": str(error)})
        return call.model_copy(update={"result": result, "error": None})

    async def _result_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        recorded = self._results.get((canonical_key(name, arguments), self._version))
        await self._take(0.0 if recorded is None else recorded.seconds)
        if recorded is None:
            raise NotRecordedError(f"no such call of {name} was recorded. Record the run again.")
        if recorded.error is not None:
            raise _RecordedToolError(recorded.error)
        return recorded.result

    async def _take(self, seconds: float) -> None:
        await anyio.sleep(seconds if self._chance is None else self._chance.choice(_TIMES))


_TIMES = (0.0, 0.1, 0.5, 1.0, 1.5, 4.0)  # some equal, so that events coincide


class _ReplayedTool:
    def __init__(self, name: str, result_of: Callable[..., Any], writes: Collection[str]) -> None:
        async def run(arguments: Mapping[str, Any]) -> str:
            result: str = await result_of(name, arguments)
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
    """Return what identifies a turn in its run: the history without ids."""
    return repr([(each["role"], each.get("content") or "", _functions(each)) for each in messages])


def _functions(message: Mapping[str, Any]) -> list[Any]:
    return [call["function"] for call in message.get("tool_calls") or ()]
