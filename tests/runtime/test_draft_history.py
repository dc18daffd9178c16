"""The answers of an app draft its later ones, also after a restart if the user names a folder."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.drafting.drafter_selector import AppDrafterSelector
from agentrt.runtime.drafting.history_store import HistoryStore
from agentrt.runtime.drafting.suffix_index import SEPARATOR
from tests.runtime.conftest import OpenRuntime

pytestmark = pytest.mark.usefixtures("whole_drafts")

QUESTION = [{"role": "user", "content": "Tell me about the weather in Oslo, in Bergen and in Tromsø."}]
OPTIONS: dict[str, Any] = {"max_tokens": 48, "temperature": 0, "ignore_eos": True}
WAIT_S = 60.0


DRAFTS = {"drafts": True}


def stored(runtime: LocalRuntime, folder: Path, app: str) -> list[int]:
    return HistoryStore(folder, runtime._tokenizer.fingerprint).load(app).tolist()


def wait_until_loaded(runtime: LocalRuntime, app: str) -> None:
    """Wait until the history of an app is loaded."""
    selector = runtime.drafter_selector
    assert isinstance(selector, AppDrafterSelector)
    histories = selector.histories
    histories.of(runtime._kept.salts.salt_for(app), app)
    loaded = threading.Event()
    histories._saver.load(app, lambda _: loaded.set())  # after what was to be loaded before
    assert loaded.wait(WAIT_S)


def test_the_answers_of_an_app_draft_after_a_restart(open_runtime: OpenRuntime, tmp_path: Path) -> None:
    with open_runtime(history_folder=tmp_path, **DRAFTS) as runtime:
        first = runtime.generate(QUESTION, app="notes", **OPTIONS)
        alone = runtime.statistics().engine
    assert stored(runtime, tmp_path, "notes") == [*first.token_ids, SEPARATOR]

    with open_runtime(history_folder=tmp_path, **DRAFTS) as runtime:
        wait_until_loaded(runtime, "notes")
        again = runtime.generate(QUESTION, app="notes", **OPTIONS)
        with_history = runtime.statistics().engine
        runtime.generate(QUESTION, app="mail", **OPTIONS)
        other_app = runtime.statistics().engine
    assert again.token_ids == first.token_ids
    assert with_history.accepted_tokens > alone.accepted_tokens
    assert 2 * (other_app.accepted_tokens - with_history.accepted_tokens) < with_history.accepted_tokens


@pytest.mark.parametrize("app", ["", "notes"])
def test_nothing_is_written_without_a_folder_or_a_name(
    open_runtime: OpenRuntime, tmp_path: Path, app: str
) -> None:
    settings = {} if app else {"history_folder": tmp_path}
    with open_runtime(**settings, **DRAFTS) as runtime:
        runtime.generate(QUESTION, app=app, **OPTIONS)
        assert not [each for each in threading.enumerate() if each.name == "agentrt-histories"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_drafts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="drafts=True"):
        RuntimeConfig(history_folder=tmp_path, drafts=False)


@pytest.mark.check
@pytest.mark.parametrize("obstacle", ["a file", "a damaged file"])
def test_a_folder_that_cannot_be_used_fails_no_request(
    open_runtime: OpenRuntime, tmp_path: Path, obstacle: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "histories"
    with open_runtime(history_folder=folder, **DRAFTS) as runtime:
        file = HistoryStore(folder, runtime._tokenizer.fingerprint).file
        if obstacle == "a file":
            folder.write_text("no folder")
        else:
            file.parent.mkdir(parents=True)
            file.write_bytes(b"damaged")
        answer = runtime.generate(QUESTION, app="notes", **OPTIONS)
    assert len(answer.token_ids) == 48
    assert len(caplog.messages) == 1
