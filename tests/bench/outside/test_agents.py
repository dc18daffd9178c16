"""Recorded agents: what a server took for each turn, and the ratios of several servers."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.bench.common.bench_model import RandomWords
from agentrt.bench.outside import agentperf
from agentrt.bench.outside.agentperf import AgentPerf, Recorded, Turn
from agentrt.bench.outside.agents import Replayed, agents_table, figures_of, measure_agents
from agentrt.bench.outside.servers import Server
from agentrt.errors import BenchProcessError, ConfigurationError
from tests.patience import until

pytestmark = pytest.mark.bench

# Stands for the package: it asks each turn of a manifest as agentperf-local does, and writes what it found.
STUB = """
import json, os, pathlib, sys, urllib.request

assert sys.argv[1] == "run" and "exact" in sys.argv and os.environ["TIKTOKEN_CACHE_DIR"]
given = dict(zip(sys.argv[3::2], sys.argv[4::2]))
manifest = pathlib.Path(sys.argv[2])
(task,) = json.loads(manifest.read_text())["tasks"]
rows = [json.loads(line) for line in (manifest.parent / task["trace"]).read_text().splitlines()]
assert len(rows) == task["model_calls"] and task["tool_calls"] == 2 * len(rows)
if given["--model"] == "broken":
    sys.exit("no such model")
results = pathlib.Path(given["--output-dir"])
results.mkdir()
with (results / "turns.jsonl").open("w") as file:
    for row in rows:
        body = json.dumps({"messages": row["messages"], "max_tokens": 4}).encode()
        with urllib.request.urlopen(given["--base-url"] + "/chat/completions", body) as answer:
            success = b"[DONE]" in answer.read()
        found = {"turn_id": row["turn_id"], "success": success}
        found["timing"] = {"e2e_latency_ms": 1500.0, "time_to_first_token_ms": 500.0}
        file.write(json.dumps({**found, "tokens": {"server_prompt_tokens": 7}}) + "\\n")
sys.exit(not success)
"""


@pytest.fixture
def installed(tmp_path: Path) -> AgentPerf:
    """A folder as the installation leaves it, with the stub as the package."""
    installation = AgentPerf(tmp_path)
    package = tmp_path / "venv" / "lib" / "agentperf_local"
    replays = package / "data" / "replays" / "agentperf-default-v1"
    (replays / "traces").mkdir(parents=True)
    task = {"task_id": "a", "trace": "traces/a.jsonl", "model_calls": 3, "tool_calls": 6}
    other = {**task, "task_id": "b", "trace": "traces/b.jsonl"}
    (replays / "manifest-x86_64.json").write_text(json.dumps({"tasks": [task, other]}), encoding="utf-8")
    row = {"messages": [{"role": "user", "content": "Hi!"}], "recorded_tool_calls_after": [{}, {}]}
    lines = [json.dumps({**row, "turn_id": f"a:{number}"}) for number in range(3)]
    (replays / "traces" / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (package / "__main__.py").write_text(STUB, encoding="utf-8")
    python = Path(installation._python)
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={package.parent} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return installation


class Handler(http.server.BaseHTTPRequestHandler):
    bodies: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.bodies.append(body)
        self.send_response(200)
        self.end_headers()
        usage = {"prompt_tokens": 9, "completion_tokens": body["max_tokens"]}
        parts = [{"choices": [{"delta": {"content": "a"}}]}, {"choices": [], "usage": usage}]
        self.wfile.write("".join(f"data: {json.dumps(part)}\n\n" for part in parts).encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server with OpenAI's API, and the requests that it got."""
    bodies: list[dict[str, Any]] = []
    handler = type("_Handler", (Handler,), {"bodies": bodies})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
        server.shutdown()


@pytest.mark.skipif(sys.platform == "win32", reason="the stub's interpreter is a shell script")
def test_an_agents_first_turns_are_replayed(installed: AgentPerf) -> None:
    with served() as (url, bodies):
        turns = installed.replay(Recorded("a", 2), url, "m")
        assert turns == [Turn(f"a:{number}", False, 1.5, 0.5, 7) for number in range(2)]
        assert len(bodies) == 2
        assert len(installed.replay(Recorded("a"), url, "m")) == 3
        with pytest.raises(BenchProcessError, match="no such model"):
            installed.replay(Recorded("a"), url, "broken")


@pytest.mark.skipif(sys.platform == "win32", reason="the stub's interpreter is a shell script")
def test_servers_take_turns_and_have_background_work_when_asked(
    installed: AgentPerf, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    replay = AgentPerf.replay
    model: Any = SimpleNamespace(prompts=RandomWords)
    process: Any = SimpleNamespace(cpu_s=lambda: None)
    with served() as (one, bodies), served() as (other, others):

        def after_a_digest(agentperf: AgentPerf, agent: Recorded, url: str, model: str) -> list[Turn]:
            """Replay an agent, which may end sooner than the thread of its background begins."""
            if "background" in lines[-1]:
                asked = bodies if url == one else others
                until(lambda: any("stream" in body for body in asked))  # the stub asks for none
            return replay(agentperf, agent, url, model)

        monkeypatch.setattr(AgentPerf, "replay", after_a_digest)
        servers = {
            name: Server(name, url, "m", process) for name, url in (("agentrt", one), ("llama_cpp", other))
        }
        work = {False: (Recorded("a", 1), Recorded("a", 2)), True: (Recorded("a", 2),)}
        figures, table = measure_agents(installed, servers, model, work, lines.append)
    assert [line.partition(":")[0] for line in lines[:4]] == [*servers, *reversed(servers)]
    digests = [body for body in bodies if body.get("service_tier") == "flex"]
    assert len(bodies) - len(digests) == 5, "background requests only beside agents"
    assert digests
    assert len({str(body["messages"]) for body in digests}) == len(digests), "no digest comes twice"
    assert figures["agentperf_wall_ratio_vs_llama_cpp"].value == 1.0
    assert figures["agentperf_wall_ratio_vs_llama_cpp_beside_background"].samples == 2
    speeds = {row[0]: row[-1] for row in table.rows}
    assert speeds["none"] is None
    assert isinstance(speeds["digest"], float)
    assert speeds["digest"] > 0


def turns(*seconds: float, failed: int | None = None) -> Replayed:
    return Replayed([Turn(str(n), n == failed, s, s / 2, 10) for n, s in enumerate(seconds)])


def test_ratios_are_of_turns_that_failed_nowhere() -> None:
    found = {False: {"agentrt": turns(1, 2, 3, failed=0), "llama_cpp": turns(9, 6, 30, failed=2)}}
    figures = figures_of(found)
    assert figures["agentperf_wall_ratio_vs_llama_cpp"].value == 3.0
    failed = figures["agentperf_turns_failed"]
    assert failed.value == 1.0
    assert failed.low is not None
    assert failed.high is not None
    assert 0 < failed.low < 1 < failed.high < 3
    assert [row[:4] for row in agents_table(found).rows] == [
        ("none", "agentrt", 3, 1),
        ("none", "llama_cpp", 3, 1),
    ]


def test_a_server_that_fails_all_turns_has_no_ratio() -> None:
    found = {False: {"agentrt": turns(1), "llama_cpp": turns(2, failed=0)}}
    assert list(figures_of(found)) == ["agentperf_turns_failed"]


def test_tokens_come_from_npms_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "tiktoken.tgz"
    content = json.dumps({"bpe_ranks": "! 0 IQ== Ig==\n! 7 Iw=="}).encode()
    with tarfile.open(archive, "w:gz") as packed:
        member = tarfile.TarInfo("package/encoders/o200k_base.json")
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))
    with pytest.raises(ConfigurationError, match="other tokens"):
        agentperf._encoding_of(archive)
    ranks = b"IQ== 0\nIg== 1\nIw== 7\n"
    monkeypatch.setattr(agentperf, "_ENCODING_SHA256", hashlib.sha256(ranks).hexdigest())
    assert agentperf._encoding_of(archive) == ranks


def test_an_interpreter_that_is_missing_or_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = AgentPerf(tmp_path)
    with pytest.raises(ConfigurationError, match=r"no interpreter 'python0\.1'"):
        installation.install("python0.1", lambda line: None)
    monkeypatch.setattr(agentperf, "_LEAST_PYTHON", (99, 0))
    with pytest.raises(ConfigurationError, match="is Python 3"):
        installation.install(sys.executable, lambda line: None)
    assert not installation.is_installed
