"""Contexts that a chat keeps: the next one begins with what the model has computed for the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import pytest

from agentrt.cli.chat.assistant import Assistant, open_assistant
from agentrt.cli.chat.opener import ModelOpener
from agentrt.examples.chat.conversation import Conversation, SilentView
from agentrt.runtime import LocalRuntime
from agentrt.runtime.contexts.stored import kept_contexts

pytestmark = [pytest.mark.slow, pytest.mark.real_model]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of contexts of a user who has none yet, and no server."""
    for kind in ("data", "state"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    return platformdirs.user_data_path("agentrt") / "contexts"


@contextmanager
def chat(*, keeps_contexts: bool = True) -> Iterator[Assistant]:
    with asyncio.Runner() as runner:
        opened = open_assistant(
            *("nano", runner, ModelOpener(keeps_contexts=keeps_contexts)),
            data=None,
            max_tokens=8,
            weather_delay=0,
            why_not=None,
        )
        with opened as assistant:
            yield assistant


def ask(assistant: Assistant) -> int:
    """Ask something that the model answers; return the tokens of its prompt that were not computed."""
    assert isinstance(assistant.runtime, LocalRuntime)
    conversation = Conversation(assistant.agent, assistant.runtime.context_length)
    assistant.runner.run(conversation.ask("Hello!", SilentView()))
    assert conversation.totals.prompt_tokens > 0
    return conversation.totals.cached_tokens


def test_the_second_start_finds_what_the_first_has_computed(folder: Path) -> None:
    cached = []
    for _ in range(2):
        with chat() as assistant:
            assert assistant.told == [
                f"Contexts are kept in {folder}: agentrt contexts lists and deletes them, "
                "--no-context-folder keeps none."
            ]
            cached.append(ask(assistant))
    assert cached[0] == 0
    assert cached[1] > 200, "the instructions and the tools"
    assert {each.app for each in kept_contexts(folder, None)} == {"chat"}


def test_a_second_chat_at_once_keeps_nothing(folder: Path) -> None:
    with chat(), chat() as second:
        assert second.told[0].startswith("Contexts are kept in memory only: the contexts in ")
        assert ask(second) == 0
    assert kept_contexts(folder, None) == []


def test_a_chat_that_is_to_keep_nothing_leaves_no_folder(folder: Path) -> None:
    with chat(keeps_contexts=False) as assistant:
        ask(assistant)
        assert assistant.told == []
    assert not folder.exists()


def test_the_command_keeps_contexts_unless_told_otherwise(
    folder: Path, command: Callable[..., tuple[object, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert command("chat", "--no-context-folder", "--max-tokens", "8", "Hello!")[1]
    assert not folder.exists()
    assert command("chat", "--max-tokens", "8", "Hello!")[1]
    assert kept_contexts(folder, None)
