"""Real models answer as OpenVINO GenAI does, stream what they answer, and follow schemas."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openvino_genai
import pytest

from agentrt.calls import TextDelta
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.engine.output.generation import Finished
from agentrt.runtime.model.gguf.cache import convert_gguf
from agentrt.runtime.model.gguf.conversion import write_model
from agentrt.runtime.model.gguf.file_format import read_source
from tests.real_models.conftest import CONFIG

PROMPTS = ["Write a short poem about rain.", "def fibonacci(n):", "What is 7 times 8? Answer briefly."]
CONVERSATION = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Hello Ada!"},
    {"role": "user", "content": "What is my name?"},
]
TOKENS = 48
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def test_it_answers_as_openvino_genai_does_with_the_same_conversion(
    file: Path, runtime: LocalRuntime
) -> None:
    reference = openvino_genai.LLMPipeline(
        str(convert_gguf(read_source(file))), "CPU", **CONFIG.device_properties()
    )
    for messages in [CONVERSATION, *([{"role": "user", "content": prompt}] for prompt in PROMPTS)]:
        answer = runtime.generate(messages, max_tokens=TOKENS, temperature=0)
        history = openvino_genai.ChatHistory(messages)
        expected = reference.generate(history, max_new_tokens=TOKENS, do_sample=False).texts[0]
        assert answer.text == expected


def test_a_stream_says_what_an_answer_says(runtime: LocalRuntime) -> None:
    *pieces, last = runtime.iter_stream(CONVERSATION, max_tokens=TOKENS, temperature=0)
    assert isinstance(last, Finished)
    assert last.generation.text.strip()
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == last.generation.text
    again = runtime.generate(CONVERSATION, max_tokens=TOKENS, temperature=0)
    assert again.token_ids == last.generation.token_ids
    assert again.usage.cached_tokens > 0


@pytest.mark.needs("c++")
def test_neither_drafts_nor_other_requests_change_a_token(file: Path, tmp_path: Path) -> None:
    text = "Repeat with the price of 12 euros: " + "A bolt of steel, 10 euros, in a red box. " * 4
    questions = [[{"role": "user", "content": each}] for each in (text, *PROMPTS)]
    answers = []
    for drafts in (False, None):
        config = RuntimeConfig(drafts=drafts, memory_bytes=2**28, profile_folder=tmp_path)
        with LocalRuntime.open(file, config) as runtime, ThreadPoolExecutor(len(questions)) as pool:
            alone = [runtime.generate(each, max_tokens=TOKENS, temperature=0) for each in questions]
            assert (runtime.statistics().engine.accepted_tokens > 0) == (drafts is None)
            together = pool.map(
                lambda each: runtime.generate(each, max_tokens=TOKENS, temperature=0, app="new"), questions
            )
            answers += [[each.token_ids for each in alone], [each.token_ids for each in together]]
    assert all(each == answers[0] for each in answers)


def test_answers_follow_a_schema(runtime: LocalRuntime) -> None:
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    answer = runtime.generate(
        [{"role": "user", "content": "Three days in Oslo, as JSON."}],
        response_format=format,
        max_tokens=80,
        temperature=0,
    )
    assert set(json.loads(answer.text)) == {"city", "days"}


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the peak of memory as Linux tells it"
)
def test_conversion_takes_little_memory(file: Path, tmp_path: Path) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = peak_mib()
    write_model(read_source(file), tmp_path, tmp_path / "config.json", lambda share: None, {})
    assert peak_mib() - before < 300


def peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
