"""What stands between a call and its tool in the Agents SDK stands before a speculation of it, too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from agents import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    ModelSettings,
    RunConfig,
    ToolGuardrailFunctionOutput,
    function_tool,
    input_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)

from agentrt import run_scope, speculable
from agentrt.adapters.openai_agents import report_of, speculate
from tests.adapters.openai_agents.doubles import (
    STREAMED,
    Drafts,
    Runs,
    after,
    agent,
    calling,
    declared_look,
    look,
    look_tool,
    model,
    outputs,
    run,
    saying,
    settled,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]


@tool_input_guardrail
def no_secrets(data: Any) -> ToolGuardrailFunctionOutput:
    """Reject calls that name a secret."""
    if "secret" in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("not that")
    return ToolGuardrailFunctionOutput.allow()


async def sometimes(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
    """Whether a call needs an approval."""
    return "secret" in arguments["q"]


class Guarded:
    """An agent that calls ``look``, which is drafted long before or ``waits`` for its run, and then is done.

    ``settings`` are those of the agent, the options those of the tool.
    """

    def __init__(self, q: str, *, waits: bool = False, settings: Any = None, **options: Any) -> None:
        self.runs = Runs()
        until = self.runs.until(q) if waits else settled
        self.chat: Any = speculate(model(calling(look(q), after=until), saying()), Drafts([look(q)]))
        self.agent = agent(self.chat, declared_look(self.runs, **options), **settings or {})

    async def decided(self, approved: bool, *, before: Sequence[str], streamed: bool = False) -> Any:
        """Run until a person has to decide, with these runs of the tool, and go on after the decision."""
        paused = await run(self.agent, streamed=streamed)
        assert self.runs.made == before
        assert outputs(paused) == []
        state = paused.to_state()
        (interruption,) = paused.interruptions
        state.approve(interruption) if approved else state.reject(interruption)
        return await run(self.agent, streamed=streamed, input=state)

    @property
    def claims(self) -> int:
        return report_of(self.chat).total.claims

    @property
    def refusals(self) -> str:
        """Why drafts were refused, or predictors not run."""
        return refusals(self.chat)


def refusals(chat: Any) -> str:
    """Return why drafts were refused, or predictors not run."""
    return "; ".join(problem for turn in report_of(chat).turns for problem in turn.problems)


async def test_what_nothing_stands_before_has_run_when_the_loop_has_settled() -> None:
    runs = Runs()
    chat = speculate(model(saying(after=settled)), Drafts([look("a")]))

    await run(agent(chat, declared_look(runs)))

    assert runs.made == ["a"]


@STREAMED
@pytest.mark.parametrize("approval", [True, sometimes], ids=["always", "sometimes"])
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "rejected"])
async def test_a_tool_that_needs_an_approval_waits_for_it(
    streamed: bool, approval: Any, approved: bool
) -> None:
    guarded = Guarded("secret", needs_approval=approval)

    result = await guarded.decided(approved, before=[], streamed=streamed)

    assert guarded.runs.made == (["secret"] if approved else [])
    assert result.final_output == "done"
    assert "a person may have to approve its call" in guarded.refusals
    assert guarded.claims == 0


async def test_an_approval_by_arguments_that_lets_the_call_pass_is_no_speculation_either() -> None:
    guarded = Guarded("harmless", needs_approval=sometimes)

    assert outputs(await run(guarded.agent)) == ["found harmless"]
    assert guarded.runs.made == ["harmless"]
    assert guarded.claims == 0


@pytest.mark.parametrize("approved", [True, False], ids=["approved", "rejected"])
@pytest.mark.parametrize("scope", [None, "user 7"])
async def test_before_approval_runs_the_tool_and_keeps_its_result(approved: bool, scope: str | None) -> None:
    """In a scope of the user's own, the run that goes on claims it."""
    guarded = Guarded("secret", waits=True, needs_approval=True, before_approval=True)

    with nullcontext() if scope is None else run_scope(scope):
        result = await guarded.decided(approved, before=["secret"])

    assert (outputs(result) == ["found secret"]) is approved
    if scope is not None:
        assert guarded.runs.made == ["secret"]
        assert guarded.claims == approved


@STREAMED
async def test_a_guardrail_of_the_tool_comes_first(streamed: bool) -> None:
    guarded = Guarded("secret", tool_input_guardrails=[no_secrets])

    assert outputs(await run(guarded.agent, streamed=streamed)) == ["not that"]
    assert guarded.runs.made == []
    assert "its input guardrails have to let the call pass" in guarded.refusals


async def test_calls_that_a_guardrail_answers_do_not_count_against_the_tool() -> None:
    """The tool may run before the guardrail, which lets calls pass at first and then rejects some."""
    runs = Runs()
    words = ["a", "b", "c", "d", "e", "f", "secret 1", "secret 2"]
    steps = [calling(look(q), after=runs.until(q)) for q in words]
    chat = speculate(model(*steps, saying()), Drafts(*[[look(q)] for q in words]))
    tool = declared_look(runs, tool_input_guardrails=[no_secrets], before_approval=True)

    result = await run(agent(chat, tool))

    assert outputs(result) == [*(f"found {q}" for q in "abcdef"), "not that", "not that"]
    found = report_of(chat).tools["look"]
    assert (found.stopped, found.claims, found.wasted) == ("", 6, 2)


@STREAMED
async def test_a_guardrail_of_the_output_judges_the_claimed_result_once(streamed: bool) -> None:
    judged: list[str] = []

    @tool_output_guardrail
    def short(data: Any) -> ToolGuardrailFunctionOutput:
        judged.append(str(data.output))
        return ToolGuardrailFunctionOutput.reject_content("too long")

    guarded = Guarded("a", waits=True, tool_output_guardrails=[short])

    assert outputs(await run(guarded.agent, streamed=streamed)) == ["too long"]
    assert judged == ["found a"]
    assert guarded.runs.made == ["a"]
    assert guarded.claims == 1


def guardrail(trips: bool, *, in_parallel: bool, decided: asyncio.Event | None = None) -> InputGuardrail[Any]:
    """Return a guardrail of the input that sets ``decided``."""

    @input_guardrail(run_in_parallel=in_parallel)
    async def decide(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        if decided is not None:
            decided.set()
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=trips)

    return decide


@STREAMED
@pytest.mark.parametrize("in_parallel", [True, False], ids=["parallel", "blocking"])
async def test_nothing_runs_for_an_input_that_a_guardrail_rejects(streamed: bool, in_parallel: bool) -> None:
    runs = Runs()
    drafts = Drafts([look("a")])
    decided = asyncio.Event()
    chat = speculate(model(calling(look("a"), after=after(decided))), drafts)
    guarded = agent(
        chat,
        declared_look(runs),
        input_guardrails=[guardrail(True, in_parallel=in_parallel, decided=decided)],
    )

    with pytest.raises(InputGuardrailTripwireTriggered):
        await run(guarded, streamed=streamed)
    assert runs.made == []
    assert drafts.requests == {}  # the user's words do not reach a predictor either


@STREAMED
async def test_after_the_first_turn_the_input_is_approved(streamed: bool) -> None:
    runs = Runs()
    decided = asyncio.Event()

    steps = calling(look("a"), after=decided.wait), calling(look("b"), after=runs.until("b")), saying()
    chat = speculate(model(*steps), Drafts([], [look("b")]))
    guarded = agent(
        chat, declared_look(runs), input_guardrails=[guardrail(False, in_parallel=True, decided=decided)]
    )

    await run(guarded, streamed=streamed)

    assert runs.made == ["a", "b"]
    assert report_of(chat).total.claims == 1
    assert "an input guardrail of the agent decides" in refusals(chat)


async def test_a_blocking_guardrail_has_decided_before_the_first_turn() -> None:
    settings = {"input_guardrails": [guardrail(False, in_parallel=False)]}
    guarded = Guarded("a", waits=True, settings=settings)

    await run(guarded.agent)

    assert guarded.claims == 1


async def test_an_sdk_that_does_not_show_its_runs_gets_no_speculation_in_first_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentrt.adapters.openai_agents.runs._run_variable", lambda: None)
    runs = Runs()
    steps = calling(look("a")), calling(look("b"), after=runs.until("b")), saying()
    chat = speculate(model(*steps), Drafts([], [look("b")]))

    await run(agent(chat, declared_look(runs)))

    assert report_of(chat).total.claims == 1  # by the context of the model request
    assert "does not show the input guardrails" in refusals(chat)


@pytest.mark.parametrize("choice", ["none", "other", "transfer_to_helper"])
async def test_a_tool_that_the_request_does_not_offer_is_not_run(choice: str) -> None:
    @function_tool
    def other(q: str) -> str:
        return q

    runs = Runs()
    helper = agent(model(saying()), name="helper")
    chat = speculate(model(saying(after=settled)), Drafts([look("a")]))
    forced = agent(
        chat, declared_look(runs), other, handoffs=[helper], model_settings=ModelSettings(tool_choice=choice)
    )

    await run(forced)

    assert runs.made == []


async def test_a_disabled_tool_is_not_run() -> None:
    runs = Runs()

    @function_tool
    def other(q: str) -> str:
        return q

    def enabled(context: Any, agent: Any) -> bool:
        return bool(context.context)

    async def made(allowed: bool) -> list[str]:
        runs.made.clear()
        drafts = Drafts([look("a")])
        until = runs.until("a") if allowed else drafts.until_decided
        chat = speculate(model(saying(after=until)), drafts)
        tools = declared_look(runs, is_enabled=enabled), speculable(other)
        await run(agent(chat, *tools), context=allowed)
        return list(runs.made)

    assert await made(allowed=True) == ["a"]
    assert await made(allowed=False) == []


async def test_the_guard_of_the_tool_itself() -> None:
    runs = Runs()

    guarded = speculable(guard=lambda arguments: arguments["q"] != "secret")(look_tool(runs))
    chat = speculate(model(saying(after=runs.until("a"))), Drafts([look("secret"), look("a")]))

    await run(agent(chat, guarded))

    assert runs.made == ["a"]


async def test_guardrails_of_the_run_config_that_block_come_first() -> None:
    guarded = Guarded("a")
    config = RunConfig(tracing_disabled=True, input_guardrails=[guardrail(True, in_parallel=False)])

    with pytest.raises(InputGuardrailTripwireTriggered):
        await run(guarded.agent, run_config=config)
    assert guarded.runs.made == []
