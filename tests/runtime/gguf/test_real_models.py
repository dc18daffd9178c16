"""Real GGUF files: those of the folder that AGENTRT_TEST_MODELS names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import openvino_genai
import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.gguf.cache import convert_gguf
from agentrt.runtime.gguf.conversion import write_model
from agentrt.runtime.gguf.source import read_source

FOLDER = os.environ.get("AGENTRT_TEST_MODELS")
FILES = sorted(Path(FOLDER).glob("*.gguf")) if FOLDER else []
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
CONFIG = RuntimeConfig(inference_precision="f32", kv_cache_precision="f32", dynamic_quantization_group_size=0)
PROMPTS = ["Write a short poem about rain.", "def fibonacci(n):", "What is 7 times 8? Answer briefly."]
TOKENS = 48
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.slow,
    pytest.mark.skipif(not FILES, reason="AGENTRT_TEST_MODELS names no folder with GGUF files"),
]


@pytest.fixture(scope="module", params=FILES or [Path("none")], ids=lambda file: file.stem)
def file(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(scope="module")
def runtime(file: Path) -> Iterator[LocalRuntime]:
    with LocalRuntime.open(file, CONFIG) as runtime:
        yield runtime


def test_it_answers_as_openvino_genai_does_with_the_same_conversion(
    file: Path, runtime: LocalRuntime
) -> None:
    reference = openvino_genai.LLMPipeline(str(convert_gguf(file)), "CPU", **EXACT)
    for prompt in PROMPTS:
        answer = runtime.generate([{"role": "user", "content": prompt}], max_tokens=TOKENS, temperature=0)
        history = openvino_genai.ChatHistory([{"role": "user", "content": prompt}])
        expected = reference.generate(history, max_new_tokens=TOKENS, do_sample=False).texts[0]
        assert answer.text == expected


def test_answers_follow_a_schema(runtime: LocalRuntime) -> None:
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    answer = runtime.generate(
        [{"role": "user", "content": "Three days in Oslo, as JSON."}],
        response_format=format,
        max_tokens=80,
        temperature=0,
    )
    assert set(json.loads(answer.text)) == {"city", "days"}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_required_tool_is_called(runtime: LocalRuntime, choice: object) -> None:
    answer = runtime.generate(
        [{"role": "user", "content": "What is the weather in Oslo in the next 3 days?"}],
        tools=[TOOL],
        tool_choice=choice,
        parallel_tool_calls=False,
        max_tokens=120,
        temperature=0,
    )
    assert [call.name for call in answer.tool_calls] == ["get_weather"]
    assert set(answer.tool_calls[0].arguments) == {"city", "days"}


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the peak of memory as Linux tells it"
)
def test_conversion_takes_little_memory(file: Path, tmp_path: Path) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = peak_mib()
    write_model(read_source(file), tmp_path, tmp_path / "config.json", lambda share: None)
    assert peak_mib() - before < 300


def peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
