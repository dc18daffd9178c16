"""Hybrid models give the tokens that transformers gives, whatever runs beside them and interrupts them.

``tests/runtime/export_models.py`` made the models and recorded the answers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from agentrt.errors import ConfigurationError
from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.engine.engine_request import EngineRequest
from agentrt.runtime.files.checksums import CHECKSUMS
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.model.directory import ModelDirectory
from tests.hypothesis_profiles import first_of
from tests.runtime.engine.test_engine import submit
from tests.runtime.tiny import HYBRID_FAMILIES, HYBRIDS, unpack_hybrid

EXPECTED = json.loads((HYBRIDS / "expected_tokens.json").read_text(encoding="utf-8"))
ANSWER = 24
BLOCK = 32
SALT = b"app"

Open: TypeAlias = Callable[..., LocalRuntime]


@pytest.fixture(scope="module", params=first_of(reversed(HYBRID_FAMILIES)))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(family: str, tmp_path_factory: pytest.TempPathFactory, nano_directory: ModelDirectory) -> Path:
    """The exported model, with nano's tokenizer."""
    folder = tmp_path_factory.mktemp("hybrids") / family
    shutil.copytree(nano_directory.path, folder, ignore=shutil.ignore_patterns("openvino_m*", CHECKSUMS))
    unpack_hybrid(family, folder)
    return folder


@pytest.fixture
def open_hybrid(directory: Path, tmp_path: Path) -> Iterator[Open]:
    """Open runtimes of one model for one test; afterwards check that nothing is held any more."""
    opened: list[LocalRuntime] = []

    def open_one(**settings: Any) -> LocalRuntime:
        exact = {"inference_precision": "f32", "kv_cache_precision": "f32", "threads": 1, "platform": "cpu"}
        opened.append(
            LocalRuntime.open(directory, RuntimeConfig(**{"memory_bytes": 2**23} | exact | settings))
        )
        return opened[-1]

    yield open_one
    for runtime in opened:
        runtime.close()
        runtime._engine._scheduler.check_integrity()
        statistics = runtime.statistics()
        assert statistics.free_blocks == statistics.blocks
        assert statistics.free_state_rows == statistics.state_rows > 0


def prompt(family: str, index: int) -> list[int]:
    return list(EXPECTED[family][index]["prompt"])


def answers(family: str) -> list[tuple[int, ...]]:
    return [tuple(case["answer"]) for case in EXPECTED[family]]


def result(request: EngineRequest) -> tuple[int, ...]:
    return request.output.result(120).token_ids


@pytest.mark.check
@pytest.mark.parametrize("family", HYBRID_FAMILIES, indirect=True, scope="module")
def test_each_prompt_alone(open_hybrid: Open, family: str) -> None:
    runtime = open_hybrid()
    found = [result(submit(runtime, ANSWER, prompt=case["prompt"])) for case in EXPECTED[family]]
    assert found == answers(family)


@pytest.mark.matrix
@pytest.mark.parametrize("prefill_chunk_tokens", first_of([32, 64, 1024]))
def test_together_and_in_chunks(open_hybrid: Open, family: str, prefill_chunk_tokens: int) -> None:
    runtime = open_hybrid(prefill_chunk_tokens=prefill_chunk_tokens, max_batch_size=4)
    requests = [submit(runtime, ANSWER, prompt=case["prompt"]) for case in EXPECTED[family] * 2]
    assert [result(request) for request in requests] == answers(family) * 2


def test_it_is_cut_between_layers_and_preempted_there(open_hybrid: Open, family: str, hold: Any) -> None:
    """A reactive request comes between two kernels of a proactive one."""
    runtime = open_hybrid(quantum_s=1e-6)
    assert len(runtime._engine._scheduler._selector._graph.bounds) > 1
    gate = hold(runtime)
    background = submit(runtime, ANSWER, prompt=prompt(family, 4), priority=Priority.PROACTIVE)
    gate.arrived()  # before the first of its kernels
    urgent = [submit(runtime, ANSWER, prompt=prompt(family, index)) for index in (2, 3)]
    gate.open()
    assert [result(request) for request in urgent] == answers(family)[2:4]
    assert result(background) == answers(family)[4]
    assert runtime.statistics().engine.preemptions > 0


def least_memory(runtime: LocalRuntime, blocks: int) -> int:
    """Bytes of an arena of so many blocks, and of state rows for one sequence at a time."""
    statistics = runtime.statistics()
    caches = runtime._engine._platform.xpus[Role.DECODE].caches
    row = sum(tensor.byte_size // tensor.shape[0] for name, tensor in caches.items() if "state" in name)
    block = (statistics.arena_bytes - (statistics.state_rows + 1) * row) // statistics.blocks
    return blocks * block + 4 * row


@pytest.mark.matrix
@pytest.mark.parametrize("steps", [0, 1, 9])
@pytest.mark.parametrize("precision", ["f32", "u8"])
def test_evicted_and_computed_again(
    open_hybrid: Open, family: str, hold: Any, precision: str, steps: int
) -> None:
    """A reactive request takes the state rows of a proactive one, in prefill or after some sampled tokens."""
    roomy = open_hybrid(kv_cache_precision=precision)
    expected = [result(submit(roomy, ANSWER, prompt=case["prompt"])) for case in EXPECTED[family]]
    assert expected == answers(family) or precision == "u8"
    tight = open_hybrid(kv_cache_precision=precision, memory_bytes=least_memory(roomy, 12), quantum_s=0.1)
    assert tight.statistics().state_rows == 3
    gate = hold(tight)
    background = submit(
        tight, ANSWER, prompt=prompt(family, 4), priority=Priority.PROACTIVE, prefix_salt=SALT
    )
    gate.arrived()
    for _ in range(steps):
        gate.step()
    urgent = submit(tight, ANSWER, prompt=prompt(family, 3), prefix_salt=SALT)
    gate.open()
    assert result(urgent) == expected[3]
    assert result(background) == expected[4]
    assert tight.statistics().engine.evictions == 1


@pytest.mark.check
def test_a_prefix_is_reused_up_to_its_last_checkpoint(open_hybrid: Open, family: str) -> None:
    plain, runtime = open_hybrid(policy="preempt-restart"), open_hybrid(prefill_chunk_tokens=1024)
    first = submit(runtime, ANSWER, prompt=prompt(family, 4), prefix_salt=SALT)
    assert result(first) == answers(family)[4]
    turn = [*first.sequence.tokens, 7, 8, 9]
    expected = result(submit(plain, ANSWER, prompt=turn, prefix_salt=SALT))
    for _ in range(2):
        second = submit(runtime, ANSWER, prompt=turn, prefix_salt=SALT)
        assert result(second) == expected
    assert second.output.result(30).cached_tokens == 320  # 300 + 24 + 3 tokens; 32 each in a block
    assert submit(plain, 1, prompt=turn, prefix_salt=SALT).output.result(30).cached_tokens == 0


@pytest.mark.check
def test_prompts_that_part_inside_reuse_an_earlier_checkpoint(open_hybrid: Open, family: str) -> None:
    plain, runtime = open_hybrid(policy="preempt-restart"), open_hybrid(prefill_chunk_tokens=1024)
    shared = prompt(family, 4)[:260]
    first = submit(runtime, 4, prompt=shared + [9] * 30, prefix_salt=SALT)
    first.output.result(30)
    other = shared + [11] * 60
    expected = result(submit(plain, ANSWER, prompt=other))
    second = submit(runtime, ANSWER, prompt=other, prefix_salt=SALT)
    assert result(second) == expected
    # The first prompt's last checkpoint, at 288, is not in the second. One of those before is, which lie 256
    # tokens apart; where exactly depends on the chunks that the profile advises.
    assert second.output.result(30).cached_tokens in range(BLOCK, 257, BLOCK)


def test_nothing_is_reused_where_keys_match_but_no_state_is_kept(open_hybrid: Open, family: str) -> None:
    """The keys of a prompt's answer may be cached without a checkpoint behind them."""
    runtime = open_hybrid()
    first = submit(runtime, 40, prompt=prompt(family, 1), prefix_salt=SALT)
    first.output.result(30)
    assert runtime.statistics().cached_blocks > 0
    again = submit(runtime, ANSWER, prompt=first.sequence.tokens, prefix_salt=SALT)
    assert again.output.result(30).cached_tokens == 0


@pytest.mark.check
def test_no_chunks_are_kept(open_hybrid: Open, directory: Path, tmp_path: Path) -> None:
    config = {"context_folder": tmp_path / "contexts", "context_memory_bytes": 2**20}
    messages = [{"role": "user", "content": "Find my notes about lasagne. " * 20}]
    tokens = []
    for _ in range(2):
        with open_hybrid(**config) as runtime:
            answer = runtime.generate(messages, app="notes", max_tokens=4)
            tokens.append(answer.token_ids)
            assert answer.usage.cached_tokens == 0
            assert runtime.statistics().contexts is None
    assert tokens[0] == tokens[1]


@pytest.mark.check
def test_no_drafts_are_made_where_none_can_be_verified(open_hybrid: Open, tmp_path: Path) -> None:
    runtime = open_hybrid(drafts=True, history_folder=tmp_path / "histories")
    chosen: list[object] = []
    submit = runtime._engine.submit

    def spy(request: Any, **options: Any) -> Any:
        chosen.extend((*options["drafters"], options["completer"]))
        return submit(request, **options)

    runtime._engine.submit = spy  # type: ignore[method-assign]
    question = [{"role": "user", "content": "again and again and again"}]
    expected = {"type": "content", "content": "again and again"}
    runtime.generate(question, app="notes", max_tokens=4, ignore_eos=True, prediction=expected)
    assert chosen == [None]
    assert not (tmp_path / "histories").exists()


def test_the_budget_must_hold_the_states_of_a_sequence(open_hybrid: Open) -> None:
    with pytest.raises(ConfigurationError, match="memory_bytes=4096 is too little for this hybrid model"):
        open_hybrid(memory_bytes=4096)
