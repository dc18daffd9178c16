"""Several predictors as one."""

from __future__ import annotations

import anyio
import pytest

from agentrt import DraftRequest, ToolCall
from agentrt.errors import ConfigurationError
from agentrt.lookahead.model_request import after_draft
from agentrt.speculators import EnsembleSpeculator, PatternSpeculator, Speculator
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time

A, B, C = (ToolCall("look", {"q": q}) for q in "abc")
REQUEST = DraftRequest([], [])


def predicted(ensemble: EnsembleSpeculator) -> tuple[list[tuple[float, ToolCall]], Exception | None]:
    """What is predicted, when, and what is raised at the end."""

    async def main() -> tuple[list[tuple[float, ToolCall]], Exception | None]:
        found = []
        try:
            async for call in ensemble.drafts(REQUEST):
                found.append((anyio.current_time(), call))
        except OSError as error:
            return found, error
        return found, None

    return run_in_virtual_time(main)


def test_the_first_to_predict_a_call_wins() -> None:
    slow, quick = ScriptedSpeculator([A, B], delay=2.0), ScriptedSpeculator([B, C, C], delay=1.0)
    ensemble = EnsembleSpeculator([slow, quick])
    assert isinstance(ensemble, Speculator)
    assert predicted(ensemble) == ([(1.0, B), (1.0, C), (2.0, A)], None)


def test_only_members_that_look_ahead_predict_before_a_result_is_there() -> None:
    plain, ahead = ScriptedSpeculator([A]), ScriptedSpeculator([B], [B])
    ahead.looks_ahead = True  # type: ignore[attr-defined]
    ensemble = EnsembleSpeculator([plain, ahead])
    assert ensemble.looks_ahead
    assert not EnsembleSpeculator([plain]).looks_ahead

    async def main(request: DraftRequest) -> list[ToolCall]:
        return [call async for call in ensemble.drafts(request)]

    assert run_in_virtual_time(lambda: main(after_draft(REQUEST, C))) == [B]
    assert run_in_virtual_time(lambda: main(REQUEST)) == [A, B]


def test_a_member_that_fails_does_not_disturb_the_others() -> None:
    failing = ScriptedSpeculator([A, OSError("down"), B])
    calls, error = predicted(EnsembleSpeculator([failing, ScriptedSpeculator([C], delay=1.0)]))
    assert [call for _, call in calls] == [A, C]
    assert isinstance(error, OSError)


def test_once_enough_agree_the_others_are_not_waited_for() -> None:
    members = [ScriptedSpeculator([A], delay=delay) for delay in (1.0, 2.0, 9.0)]

    async def main() -> float:
        async for _ in EnsembleSpeculator(members, agreement=2).drafts(REQUEST):
            pass
        return anyio.current_time()

    assert run_in_virtual_time(main) == 2.0


def test_closing_the_drafts_cancels_the_members() -> None:
    async def main() -> float:
        members = [ScriptedSpeculator([A]), ScriptedSpeculator([B], delay=50.0)]
        drafts = EnsembleSpeculator(members).drafts(REQUEST)
        assert await anext(drafts) == A
        await drafts.aclose()  # type: ignore[attr-defined]
        return anyio.current_time()

    assert run_in_virtual_time(main) == 0.0


def test_members_that_learn_are_taught() -> None:
    pattern = PatternSpeculator()
    ensemble = EnsembleSpeculator([ScriptedSpeculator(), pattern])
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    tools = [{"type": "function", "function": {"name": "look", "parameters": schema}}]
    for _ in range(6):
        ensemble.learn(DraftRequest([{"role": "user", "content": "go"}], tools), [A])
    request = DraftRequest([{"role": "user", "content": "go"}], tools)

    async def main() -> list[ToolCall]:
        return [call async for call in ensemble.drafts(request)]

    assert anyio.run(main) == [A]
    pattern.close()


def test_drafts_without_a_key_are_dropped() -> None:
    endless: dict[str, object] = {}
    endless["q"] = endless
    assert predicted(EnsembleSpeculator([ScriptedSpeculator([ToolCall("look", endless), A])]))[0] == [
        (0.0, A)
    ]


def test_wrong_use_raises() -> None:
    with pytest.raises(ConfigurationError, match="member"):
        EnsembleSpeculator([])
    with pytest.raises(ConfigurationError, match="agreement"):
        EnsembleSpeculator([ScriptedSpeculator()], agreement=0)
