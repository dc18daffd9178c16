"""Every engine answers the same requests: tokens and times come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.common.served_runtime import EXACT
from agentrt.bench.engines.llama_cpp import LlamaCpp
from agentrt.bench.engines.local import AgentRT
from agentrt.bench.engines.openvino_genai import OpenVINOGenAI, device_properties
from agentrt.bench.engines.side import EngineProcess, Request
from agentrt.errors import ModelNotFoundError
from agentrt.runtime.nano import MODEL_DIRECTORY

pytestmark = pytest.mark.bench

NANO = str(MODEL_DIRECTORY)
HELLO = [{"role": "user", "content": "Hello!"}]


def test_a_side_serves_a_schedule() -> None:
    requests = [Request("roof garden " * 15, 3, reactive=False), Request("mail note", 2, at_s=0.05)]
    with EngineProcess(AgentRT, NANO) as side:
        run = side.stream(requests)
    assert [one.request for one in run.answers] == requests
    for one in run.answers:
        assert 0 < one.first_s <= one.total_s <= run.elapsed_s
        assert one.new_tokens == one.request.max_tokens
    assert run.answers[0].prompt_tokens > run.answers[1].prompt_tokens


def test_both_say_the_same_in_float32() -> None:
    request = Request(HELLO, 12, ignore_eos=False)
    with EngineProcess(AgentRT, NANO, EXACT) as ours, EngineProcess(OpenVINOGenAI, NANO, EXACT) as theirs:
        answers = [side.generate(request) for side in (ours, theirs)]
        prompt = ours.call("prompt_tokens", HELLO)
        drafted = theirs.generate(Request(prompt, 12, ignore_eos=False))
        timed = [side.generate(Request("Hello!", 8)) for side in (ours, theirs)]
    assert answers[0].token_ids == answers[1].token_ids == drafted.token_ids
    assert answers[0].text == answers[1].text != ""
    for answer in timed:
        assert answer.new_tokens == 8
        assert answer.prompt_tokens == len(prompt)
        assert 0 < answer.decode_s < answer.total_s


def test_llama_cpp_answers_messages_and_tokens(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 2, 64, 128, 2, 1, 512))
    with EngineProcess(LlamaCpp, str(file), 1024, 2) as side:
        assert side.context_length == 512
        answer, from_tokens = side.generate(Request(HELLO, 5)), side.generate(Request([5, 6, 7], 5))
        run = side.stream([Request("Hello!", 3), Request("Hello again!", 3)])
    assert answer.new_tokens == 5
    assert 0 < answer.decode_s < answer.total_s
    assert len(from_tokens.token_ids) == from_tokens.new_tokens
    assert [one.new_tokens for one in run.answers] == [3, 3]


def test_settings_are_the_same_for_both_sides() -> None:
    settings = {"threads": 2, "dynamic_quantization_group_size": 128, "inference_precision": "f32"}
    assert device_properties(settings) == {
        "INFERENCE_NUM_THREADS": 2,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 128,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    assert device_properties({}) == {}, "OpenVINO's defaults are left alone"


def test_a_side_that_fails_raises_here() -> None:
    with pytest.raises(ModelNotFoundError, match="no model '/no/such/model'"):
        EngineProcess(AgentRT, "/no/such/model")
