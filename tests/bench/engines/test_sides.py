"""Every engine answers the same requests: tokens and times come out."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.common.served_runtime import EXACT
from agentrt.bench.engines.build_llama_server import build
from agentrt.bench.engines.llama_cpp import (
    EXECUTABLE,
    LLAMA_CPP,
    LLAMA_CPP_NATIVE,
    SHARED_CACHE,
    LlamaCpp,
    describe_builds,
    llama_cpp_builds,
)
from agentrt.bench.engines.local import AgentRT
from agentrt.bench.engines.openvino_genai import OpenVINOGenAI, device_properties, groups_of_agentrt
from agentrt.bench.engines.side import EngineProcess, Request
from agentrt.errors import BenchProcessError, ConfigurationError, ModelNotFoundError
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


EXECUTABLE_OF_TESTS = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

if "/dev/null" in sys.argv:
    sys.exit("0.1 I system_info: n_threads = 2 / 2 | CPU : AVX2 = 1 | AVX512 = 1 | AMX_INT8 = 0 | ")
if "no.gguf" in sys.argv:
    sys.exit("failed to load the model")


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        self.do_GET()
        made = {{"tokens": [7] * 5, "timings": {{"predicted_ms": 40, "prompt_ms": 10}}}}
        self.wfile.write(json.dumps(made).encode())

    def log_message(self, *arguments):
        pass


assert sys.argv[sys.argv.index("--cache-ram") + 1] == "0"
assert "--jinja" in sys.argv and "--kv-unified" in sys.argv
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Server).serve_forever()
"""


@pytest.fixture
def llama_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable that serves as llama.cpp's does."""
    executable = tmp_path / "llama-server"
    executable.write_text(EXECUTABLE_OF_TESTS.format(python=sys.executable), encoding="utf-8")
    executable.chmod(0o700)
    monkeypatch.setenv(EXECUTABLE, str(executable))


@pytest.mark.usefixtures("llama_server")
def test_an_executable_serves_beside_the_wheel() -> None:
    builds = llama_cpp_builds()
    assert [*builds] == [LLAMA_CPP, LLAMA_CPP_NATIVE]
    parameters = {**SHARED_CACHE, "cache_ram_mib": 0}
    with EngineProcess(builds[LLAMA_CPP_NATIVE], "model.gguf", 1024, 2, parameters) as side:
        assert side.context_length == 512
        answer = side.generate(Request([5, 6, 7], 5))
        url, peak = side.call("url"), side.call("peak_memory")
    assert (answer.token_ids, answer.decode_s, answer.total_s) == ((7,) * 5, 0.04, 0.05)
    assert peak is None or peak > 2**20, "of the executable"
    with pytest.raises(OSError, match="refused"):
        urlopen(url)  # it has ended with its side
    with pytest.raises(BenchProcessError, match="failed to load the model"):
        EngineProcess(builds[LLAMA_CPP_NATIVE], "no.gguf", 1024)


def test_a_report_says_what_llama_cpp_is_compiled_for(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.delenv(EXECUTABLE, raising=False)
    assert [*llama_cpp_builds()] == [LLAMA_CPP]
    assert "only the wheel ran" in describe_builds()
    request.getfixturevalue("llama_server")
    assert describe_builds().endswith("llama_cpp_native a build for this processor (AVX2 AVX512).")
    monkeypatch.setenv(EXECUTABLE, str(tmp_path))
    with pytest.raises(ConfigurationError, match=EXECUTABLE):
        llama_cpp_builds()


def test_a_build_needs_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"cmake and c\+\+ not found"):
        build(tmp_path)


def test_openvino_genai_computes_in_the_groups_of_agentrt(tmp_path: Path) -> None:
    write_random_gguf(tmp_path / "tiny.gguf", ModelShape("qwen2", 1, 512, 512, 4, 2, 512))
    assert groups_of_agentrt(str(tmp_path / "tiny.gguf")) == {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 128}


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
