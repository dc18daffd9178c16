"""Keys, completion and history of the prompt."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from agentrt.cli.chat.line_editor import LineEditor, open_history
from agentrt.cli.chat.session import DESCRIPTIONS

Editor = Callable[[bytes], LineEditor]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_state_path", lambda name: tmp_path / name)
    return tmp_path / "agentrt"


@pytest.fixture
def typed(folder: Path) -> Iterator[Editor]:
    """Returns an editor in which these keys are pressed."""
    with (
        create_pipe_input() as keys,
        create_app_session(input=keys, output=DummyOutput()),
        asyncio.Runner() as runner,
    ):

        def press(pressed: bytes) -> LineEditor:
            keys.send_bytes(pressed)
            return LineEditor(runner, DESCRIPTIONS)

        yield press


@pytest.mark.parametrize(
    ("keys", "read"),
    [
        (b"one\rtwo\r", "one"),
        (b"one\x1b\rtwo\r", "one\ntwo"),  # Alt-Enter
        (b"\x1b[200~one\r\ntwo\n\x1b[201~\r", "one\ntwo"),  # pasted
        (b"one\x03two\r", "two"),  # Ctrl-C
        (b"/st\t\r", "/stats"),
        (b"/x\t\r", "/x"),
        (b"what about /st\t\r", "what about /st"),
        (b"/model x\t\r", "/model x"),
    ],
)
def test_keys_make_a_question(typed: Editor, keys: bytes, read: str) -> None:
    assert typed(keys).read() == read


@pytest.mark.parametrize(("keys", "error"), [(b"\x03", KeyboardInterrupt), (b"\x04", EOFError)])
def test_ctrl_c_and_ctrl_d_on_an_empty_line(typed: Editor, keys: bytes, error: type[BaseException]) -> None:
    with pytest.raises(error):
        typed(keys).read()


def test_bytes_that_are_no_utf8_are_replaced(typed: Editor, folder: Path) -> None:
    assert typed(b"caf\xe9!\r").read() == "caf\ufffd!"
    assert "+caf\ufffd!" in (folder / "chat_history").read_text(encoding="utf-8")


def test_the_history_of_another_run_is_there(typed: Editor) -> None:
    typed(b"one\r").read()
    assert typed(b"\x1b[A!\r").read() == "one!"


def test_only_the_user_can_read_the_history(typed: Editor, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "chat_history").touch(0o644)
    typed(b"one\r").read()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "chat_history").stat().st_mode) == 0o600


def test_without_a_usable_folder_the_history_lasts_as_long_as_the_program(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("no folder")
    with caplog.at_level(logging.WARNING):
        assert isinstance(open_history(), InMemoryHistory)
    assert "there is no history" in caplog.text


def test_a_history_that_cannot_be_written_does_not_end_the_chat(
    typed: Editor, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    editor = typed(b"one\rtwo\r")
    (folder / "chat_history").unlink()
    (folder / "chat_history").mkdir()
    with caplog.at_level(logging.WARNING):
        assert [editor.read(), editor.read()] == ["one", "two"]
    assert "the history is not written" in caplog.text
