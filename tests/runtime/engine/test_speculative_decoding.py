"""Draft tokens of any drafter: tokens are the same with right, wrong and too long drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.drafting.drafter import Drafter
from agentrt.runtime.scheduler.draft import MAX_DRAFT_TOKENS, NO_DRAFT, Draft
from tests.hypothesis_profiles import first_of
from tests.runtime.conftest import OpenRuntime
from tests.runtime.engine.test_engine import SHORT, submit

TOKENS = 40

pytestmark = pytest.mark.usefixtures("whole_drafts")


class ScriptedDrafter(Drafter):
    """Drafts the next ``length`` tokens of a script; every ``wrong``-th of them is another token."""

    def __init__(self, script: Sequence[int], length: int, wrong: int = 0) -> None:
        self.seen: list[int] = []
        self.observed: list[tuple[tuple[int, ...], list[int]]] = []
        self._script = [
            (token + 1) % 2048 if wrong and index % wrong == wrong - 1 else token
            for index, token in enumerate(script)
        ]
        self._length = length

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        self.observed.append((tuple(verified), logits.argmax(-1).tolist()))

    def append(self, token: int) -> None:
        self.seen.append(token)

    def draft(self) -> Draft:
        tokens = tuple(self._script[len(self.seen) :][: self._length])
        return Draft(tokens, (1.0,) * len(tokens))


def sampled(runtime: LocalRuntime, drafter: Any = None, **params: Any) -> tuple[int, ...]:
    return submit(runtime, TOKENS, prompt=SHORT, drafter=drafter, **params).output.result(30).token_ids


@pytest.mark.matrix
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 1.5, "seed": 3},
        {"repetition_penalty": 1.3},
        {"frequency_penalty": 0.7, "presence_penalty": 0.4},
    ],
)
@pytest.mark.parametrize("wrong", [0, 1, 3])
@pytest.mark.parametrize("length", [1, 5, 1000])
def test_drafts_change_no_token(
    runtime: LocalRuntime, before: EngineStatistics, length: int, wrong: int, params: dict[str, Any]
) -> None:
    plain = sampled(runtime, **params)
    middle = runtime.statistics().engine
    drafter = ScriptedDrafter(plain, length, wrong)
    assert sampled(runtime, drafter, **params) == plain
    assert drafter.seen == list(plain[:-1]), "every token but the last, in order"
    after = runtime.statistics().engine
    drafted = after.drafted_tokens - middle.drafted_tokens
    accepted = after.accepted_tokens - middle.accepted_tokens
    assert len(drafter.observed) == after.steps - middle.steps
    assert all(len(rows) == 1 + len(verified) for verified, rows in drafter.observed)
    assert drafted > 0
    assert (accepted == drafted) == (wrong == 0)
    assert (accepted == 0) == (wrong == 1)
    assert after.steps - middle.steps == len(plain) - accepted
    assert middle.drafted_tokens == before.drafted_tokens, "without a drafter nothing is drafted"


def test_no_draft_is_longer_than_the_limit(runtime: LocalRuntime, gate: Any) -> None:
    request = submit(runtime, 1000, prompt=SHORT, drafter=ScriptedDrafter([0] * 1000, 1000))
    gate.arrived()
    gate.step()
    assert len(request.sequence.draft.tokens) == MAX_DRAFT_TOKENS
    (chunk,) = gate.steps[-1]
    assert 0 < len(chunk.draft) <= MAX_DRAFT_TOKENS
    runtime._engine.cancel(request)
    gate.open()
    request.output.result(30)


class PromptReader(Drafter):
    """Keeps the likeliest token behind each token of the prompt that it is shown."""

    reads_prompt = True

    def __init__(self) -> None:
        self.likeliest: dict[int, int] = {}

    def observe_prompt(self, begin: int, logits: Any) -> None:
        self.likeliest |= dict(enumerate(logits.argmax(-1).tolist(), begin))

    def draft(self) -> Draft:
        return NO_DRAFT


def test_the_logits_of_all_prompt_rows_are_those_of_each_prefix(open_runtime: OpenRuntime) -> None:
    """Of all that is computed: in chunks, beside another prompt, and behind what the prefix cache has."""
    runtime = open_runtime(prefill_chunk_tokens=64)
    prompt = [300 + place * place % 97 for place in range(150)]
    prompts, readers = [prompt, prompt[40:], prompt], [PromptReader() for _ in range(3)]

    def request(number: int) -> Any:
        return submit(runtime, 2, prompt=prompts[number], drafter=readers[number], prefix_salt=b"app")

    for batch in ((0, 1), (2,)):
        outputs = [each.output.result(30) for each in [request(number) for number in batch]]
    begins = (0, 0, outputs[0].cached_tokens)
    assert begins[2] > 0
    for reader, asked, begin in zip(readers, prompts, begins, strict=True):
        assert sorted(reader.likeliest) == list(range(begin, len(asked) - 1))
        for place in [*reader.likeliest][::17]:
            (token,) = submit(runtime, 1, prompt=asked[: place + 1]).output.result(30).token_ids
            assert reader.likeliest[place] == token, place


# Drafts that reach beyond the end of an answer, its calls, the KV arena or the context.


@pytest.mark.parametrize("wrong", [0, 7])
@pytest.mark.parametrize("place", [0, 1, 5, 20])
def test_an_end_token_inside_a_draft(runtime: LocalRuntime, place: int, wrong: int) -> None:
    script = sampled(runtime)
    ends = frozenset({script[place]})
    expected = submit(runtime, TOKENS, prompt=SHORT, end_tokens=ends).output.result(30)
    drafter = ScriptedDrafter(script, 30, wrong)
    output = submit(runtime, TOKENS, prompt=SHORT, end_tokens=ends, drafter=drafter).output.result(30)
    assert output.token_ids == expected.token_ids == script[: script.index(script[place]) + 1]
    assert output.stop_reason == "stop"
    assert drafter.seen == list(output.token_ids[:-1])


@pytest.mark.parametrize("place", [1, 5, 20])
def test_a_stop_string_inside_a_draft(runtime: LocalRuntime, place: int) -> None:
    script = sampled(runtime)
    stop = runtime._tokenizer.decode(script[place : place + 2])
    assert stop
    pieces: dict[bool, list[Any]] = {False: [], True: []}
    outputs = [
        submit(
            runtime,
            TOKENS,
            prompt=SHORT,
            stop=(stop,),
            drafter=ScriptedDrafter(script, 30) if drafts else None,
            listener=pieces[drafts].append,
        ).output.result(30)
        for drafts in (False, True)
    ]
    assert outputs[0].token_ids == outputs[1].token_ids
    assert len(outputs[0].token_ids) < TOKENS
    assert "".join(pieces[False]) == "".join(pieces[True])
    assert stop not in "".join(pieces[True])


@pytest.mark.parametrize("tokens", [1, 2, 3, 33])
def test_no_draft_goes_beyond_the_last_token(runtime: LocalRuntime, tokens: int, gate: Any) -> None:
    gate.open()
    script = sampled(runtime)
    first = len(gate.steps)
    output = submit(runtime, tokens, prompt=SHORT, drafter=ScriptedDrafter(script, 1000)).output.result(30)
    assert output.token_ids == script[:tokens]
    drafts = [len(chunk.draft) for batch in gate.steps[first:] for chunk in batch]
    assert sum(drafts) <= max(0, tokens - 2)


@pytest.mark.parametrize("room", first_of([1, 0, 5]))
def test_drafts_end_with_the_arena(open_runtime: OpenRuntime, room: int) -> None:
    roomy = open_runtime()
    block_bytes = roomy.statistics().arena_bytes // roomy.statistics().blocks
    block_tokens = roomy.statistics().block_tokens
    prompt = SHORT[: block_tokens - 2]
    tokens = 2 * block_tokens - len(prompt) - room  # of two blocks, all but ``room``
    script = submit(roomy, tokens + 64, prompt=prompt).output.result(30).token_ids
    tight = open_runtime(memory_bytes=2 * block_bytes)
    assert tight.statistics().blocks == 2
    output = submit(tight, tokens, prompt=prompt, drafter=ScriptedDrafter(script, 1000)).output.result(30)
    assert output.token_ids == script[:tokens]
    assert tight.statistics().engine.accepted_tokens > 0
