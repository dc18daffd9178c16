"""The model of a chat, opened while LangChain is imported."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.cli.chat.opener import ModelOpener
from agentrt.errors import ModelNotFoundError
from agentrt.runtime import OpeningStep

OPENER = "agentrt-opening"


class Openings:
    """Opens no model: notes what was opened, on which thread, and what was closed."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, bool]] = []
        """Names, and whether the thread was that of an opener."""
        self.closed: list[str] = []
        self.steps: list[OpeningStep] = []
        """Reported before a model is open."""
        self.passed: list[OpeningStep] = []
        self.go = threading.Event()
        self.go.set()
        self.error: Exception | None = None

    def __call__(self, model: str, on_step: Callable[[OpeningStep], None]) -> Any:
        for step in self.steps:
            on_step(step)
            self.passed.append(step)
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        self.opened.append((model, threading.current_thread().name == OPENER))
        return SimpleNamespace(name=model, close=lambda: self.closed.append(model))


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> Openings:
    openings = Openings()
    monkeypatch.setattr("agentrt.examples.assistant.model.open_runtime", openings)
    return openings


def test_what_was_begun_is_taken_once_and_other_models_are_opened_at_once(openings: Openings) -> None:
    with ModelOpener() as opener:
        opener.begin("small")
        assert [opener.open(name).name for name in ("small", "large", "small")] == ["small", "large", "small"]  # type: ignore[attr-defined]
    assert openings.opened == [("small", True), ("large", False), ("small", False)]
    assert not openings.closed, "who has taken them closes them"


def test_an_error_is_raised_where_the_model_is_taken(openings: Openings) -> None:
    openings.error = ModelNotFoundError("there is no such model")
    with ModelOpener() as opener:
        opener.begin("small")
        with pytest.raises(ModelNotFoundError, match="no such model"):
            opener.open("small")


def test_a_chat_that_ends_before_it_takes_the_model_leaves_nothing(openings: Openings) -> None:
    openings.go.clear()
    before = threading.active_count()
    with ModelOpener() as opener:
        opener.begin("small")
        openings.go.set()
    assert openings.closed == ["small"]
    assert threading.active_count() == before


def test_nothing_is_measured_while_the_chat_imports(openings: Openings) -> None:
    loading, measuring = OpeningStep("converting", 0.5), OpeningStep("measuring: CPU: decode of 8")
    openings.steps = [loading, measuring]
    with ModelOpener() as opener:
        opener.begin("small")
        taken = threading.Thread(target=opener.open, args=("small",))
        assert openings.passed in ([], [loading])
        taken.start()
        taken.join(30)
        assert openings.passed == openings.steps


def test_an_opening_ends_at_its_next_step_once_the_chat_has_ended(openings: Openings) -> None:
    openings.steps = [OpeningStep("measuring: memory bandwidth"), OpeningStep("loading")]
    with ModelOpener() as opener:
        opener.begin("small")
    assert not openings.passed
    assert not openings.opened


PROGRAM = """
import sys
from agentrt.cli.chat.opener import ModelOpener
from agentrt.cli.chat.served import find_served
from agentrt.cli.main import app
assert find_served("nano") is None
with ModelOpener() as opener:
    opener.begin("nowhere.gguf")
    print([name for name in ("langchain_core", "prompt_toolkit", "gguf") if name in sys.modules])
"""


def test_a_model_is_opened_before_langchain_is_imported(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr
