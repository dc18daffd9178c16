"""The servers do what agentperf-local asks of them: its fields, exact lengths, and why an answer ended."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.bench_model import BenchModel, RandomWords
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.outside.servers import open_servers

pytestmark = pytest.mark.bench

ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 5, "stream": True}
USAGE = {"stream_options": {"include_usage": True}}
SAMPLED = {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.0}


def events(url: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    content = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), content)
    with urllib.request.urlopen(request, timeout=300) as answer:
        lines = answer.read().decode().splitlines()
    return [
        json.loads(line.removeprefix("data:"))
        for line in lines
        if line.startswith("data:") and not line.endswith("[DONE]")
    ]


def test_every_server_writes_as_long_as_it_is_asked_to(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 2, 64, 128, 2, 1, 512))
    with open_servers(BenchModel.of("tiny", str(file), RandomWords)) as servers:
        assert list(servers) == ["agentrt", "llama_cpp", "openvino_genai"]
        for name, server in servers.items():
            # The last one has no `ignore_eos`: agentperf-local compares what a server does without it.
            for options in (SAMPLED | {"ignore_eos": True}, {"ignore_eos": True, "temperature": 0}, {}):
                found = events(server.url, {**ASKED, **USAGE, **options, "model": server.model})
                reasons = [each["choices"][0].get("finish_reason") for each in found if each.get("choices")]
                (usage,) = [each["usage"] for each in found if each.get("usage")]
                if options:
                    assert reasons[-1] == "length", name
                    assert usage["completion_tokens"] == 5, name
                else:
                    assert reasons[-1] in ("length", "stop"), name
            assert sys.platform != "linux" or server.process.cpu_s() > 0  # type: ignore[operator]
