"""The questions that the user types: several lines, a history, completion of commands."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.shortcuts import CompleteStyle

_log = logging.getLogger(__name__)


class LineEditor:
    """A prompt on the terminal. Enter sends, Alt-Enter begins a line, pasted lines stay lines."""

    def __init__(self, runner: asyncio.Runner, commands: Mapping[str, str]) -> None:
        """Prompt on the event loop of ``runner``; ``commands`` are completed: names with descriptions."""
        self._runner = runner
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            completer=WordCompleter([*commands], meta_dict=commands, sentence=True),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,  # a menu would keep lines free below each prompt
            history=open_history(),
            key_bindings=_key_bindings(),
            interrupt_exception=_InterruptedError,
        )

    def read(self) -> str:
        """Read a question; bytes that are no UTF-8 become replacement characters.

        Raises:
            EOFError: the user has pressed Ctrl-D, or the terminal is gone.
            KeyboardInterrupt: the user has pressed Ctrl-C on an empty line; on another, it is begun anew.
        """
        while True:
            try:
                with _warnings_above():
                    text = self._runner.run(self._session.prompt_async("> ", handle_sigint=False))
            except _InterruptedError as interrupted:
                if interrupted.text:
                    continue
                raise KeyboardInterrupt from None
            return _clean(text.strip())

    async def print_above(self, show: Callable[[], None]) -> bool:
        """Call ``show``, which prints, above an empty prompt.

        Returns False, and prints nothing, where something is typed or no prompt is there.
        """

        def show_if_empty() -> bool:
            if is_empty := self._is_empty():
                show()
            return is_empty

        return self._is_empty() and await run_in_terminal(show_if_empty)

    def _is_empty(self) -> bool:
        app = self._session.app
        typed = app.current_buffer.text or self._session.default_buffer.text
        return app.is_running and not typed


class _InterruptedError(Exception):
    """Ctrl-C was pressed; ``text`` had been typed."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.text = text


class _PrivateHistory(FileHistory):
    """A history in a file; what cannot be read or written is left out of it."""

    def load_history_strings(self) -> Iterable[str]:
        """Return the questions in the file, the latest first."""
        try:
            return super().load_history_strings()
        except OSError as error:
            _log.warning("the history is not read: %s", error)
            return ()

    def store_string(self, string: str) -> None:
        """Append a question to the file."""
        try:
            super().store_string(_clean(string))
        except OSError as error:
            _log.warning("the history is not written: %s", error)


def open_history() -> History:
    """Return the history in the user's state folder, which only the user can read.

    Where it cannot be read and written, the history lasts as long as the program.
    """
    import platformdirs

    path = platformdirs.user_state_path("agentrt") / "chat_history"
    try:
        _create_private(path)
    except OSError as error:
        _log.warning("there is no history: %s cannot be used (%s)", path, error.strerror)
        return InMemoryHistory()
    return _PrivateHistory(path)


def _create_private(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.name == "posix":
            os.fchmod(descriptor, 0o600)  # of a file that was there already
    finally:
        os.close(descriptor)


@contextmanager
def _warnings_above() -> Iterator[None]:
    """In the block, print above the prompt what threads write on standard error, if that is the terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with StdoutProxy() as above, redirect_stderr(cast(TextIO, above)):
        yield


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        event.app.exit(exception=_InterruptedError(event.current_buffer.text), style="class:aborting")

    return bindings


def _clean(text: str) -> str:
    # Terminals' bytes that are no UTF-8 arrive as surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
