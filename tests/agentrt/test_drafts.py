"""Which predictors may be given, and what their drafts may be."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from agentrt import ToolCall
from agentrt.drafts import DraftRequest, drafts_of, predictors_of
from agentrt.errors import ConfigurationError
from agentrt.speculators import EnsembleSpeculator
from agentrt.testing import ScriptedSpeculator
from tests.agentrt.loops import in_virtual_time
from tests.agentrt.turns.sessions import call, drive, slow_tool


def test_one_predictor_is_given_like_several() -> None:
    predictor = ScriptedSpeculator()
    assert predictors_of(predictor) == (predictor,)
    assert predictors_of([predictor, predictor]) == predictors_of(iter([predictor] * 2)) == (predictor,) * 2
    assert predictors_of([]) == ()
    assert predictors_of(["mine", predictor], others=(str,)) == ("mine", predictor)


@pytest.mark.parametrize(
    "given", ["x", "", None, [None], ScriptedSpeculator, [ScriptedSpeculator], [[]], object()]
)
def test_what_is_no_predictor_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"predictors: .* Give a predictor"):
        predictors_of(given)


class Generator:
    def drafts(self, request: DraftRequest) -> Iterator[ToolCall]:
        yield ToolCall("look", {})


class Coroutine:
    async def drafts(self, request: DraftRequest) -> list[ToolCall]:
        return [ToolCall("look", {})]


class Listed:
    name = "open order"

    def drafts(self, request: DraftRequest) -> list[ToolCall]:
        return [ToolCall("look", {})]


class Awaitable:
    def drafts(self, request: DraftRequest) -> Any:
        return Coroutine().drafts(request)


class Delegating:
    def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        return ScriptedSpeculator([ToolCall("look", {})]).drafts(request)


WRITE_IT = r"Write 'async def drafts\(self, request\):' with 'yield ToolCall\(…\)'"


@pytest.mark.parametrize(
    ("predictor", "problem"), [(Generator(), "a generator"), (Coroutine(), "a coroutine")]
)
def test_drafts_that_can_never_be_iterated_are_refused_at_once(predictor: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{problem}.*{WRITE_IT}"):
        predictors_of(predictor)
    with pytest.raises(ConfigurationError, match=problem):
        EnsembleSpeculator([predictor])


@pytest.mark.parametrize("predictor", [Listed(), Awaitable(), EnsembleSpeculator([Listed()])])
def test_drafts_that_turn_out_to_be_no_iterator_are_reported(
    predictor: Any, caplog: pytest.LogCaptureFixture
) -> None:
    driven = drive(slow_tool(1, []), predictor, [call("a")])
    assert driven.results == ["found a"]
    assert driven.report.turns[0].problems[0].endswith("failed: ConfigurationError")
    (logged,) = {record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert re.search(WRITE_IT, logged)
    assert ("of open order returns an object of type list" in logged) or isinstance(predictor, Awaitable)


@in_virtual_time
async def test_a_method_that_returns_the_drafts_of_another_predictor() -> None:
    (predictor,) = predictors_of(Delegating())
    assert [draft.name async for draft in drafts_of(predictor, DraftRequest([], []))] == ["look"]
