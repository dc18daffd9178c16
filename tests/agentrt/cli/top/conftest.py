from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentrt.cli.main import app
from agentrt.cli.top import watch
from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.conftest import open_exact
from tests.runtime.serving.gateway.scripted import Scripted
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import running


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's settings, which does not exist."""
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / "settings" / name)
    return tmp_path / "settings" / "agentrt"


@pytest.fixture(scope="module")
def nano() -> Iterator[LocalRuntime]:
    with open_exact() as runtime:
        yield runtime


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return token_file(tmp_path / "tokens", mine="o", notes="n")


def token_file(path: Path, **apps: str) -> Path:
    """Write a token file whose tokens are a letter each, many times."""
    path.touch(0o600)
    path.write_text("".join(f"{app} {letter * 20}\n" for app, letter in apps.items()))
    return path


@pytest.fixture
def server(nano: LocalRuntime, tokens: Path) -> Iterator[Running]:
    with running(nano, tokens=Tokens.read(tokens)) as server:
        yield server


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    """Starts servers that send fixed bytes."""
    with ExitStack() as stack:

        def start(answer: bytes, **settings: Any) -> Scripted:
            server = Scripted(answer, **settings)
            stack.callback(server.close)
            return server

        yield start


def top(*options: object, sample_s: float = 0.2) -> str:
    """Run agentrt top without a terminal, and return what it prints of ``sample_s`` seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "SAMPLE_S", sample_s)
        result = CliRunner().invoke(app, ["top", *map(str, options)])
    if result.exit_code:
        raise result.exception or AssertionError(result.output)
    return result.output
