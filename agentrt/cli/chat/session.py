"""A conversation on the terminal: lines in, answers out, until the user leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text

from ...errors import PromptTooLongError, RequestError
from ...terminal_text import printable
from .conversation import Conversation
from .slash_commands import SlashCommands
from .views import ConversationView

if TYPE_CHECKING:
    from rich.console import Console

    from .assistant import Assistant


class ChatSession:
    """Reads lines, and answers them or runs their commands."""

    def __init__(self, assistant: Assistant, console: Console, read_line: Callable[[], str]) -> None:
        """``read_line`` raises EOFError at the end of the input, and KeyboardInterrupt on Ctrl-C."""
        self._assistant = assistant
        self._console = console
        self._read_line = read_line
        self._conversation = Conversation(assistant.agent, assistant.runtime.context_length, assistant.clock)
        self.commands = SlashCommands(assistant, self._conversation, console)

    def introduce(self) -> None:
        """Print what can be asked, and how to leave."""
        self._print("Ask about notes, calendar, mail, files or the weather, such as:")
        for question in self._assistant.examples:
            self._print(f"  {question}")
        self._print("/help lists commands. Ctrl-C stops an answer, Ctrl-D leaves.")

    def run(self) -> None:
        """Go on until the input ends or ``/exit`` is read. Ctrl-C ends an answer, not this."""
        while not self.commands.left:
            # An interrupt may come at any time, also a second one while an answer is being stopped.
            try:
                self._console.print()
                line = self._next_line()
                if line and not self.commands.run(line):
                    self._take_turn(line)
            except EOFError:
                return
            except KeyboardInterrupt:
                continue

    def _next_line(self) -> str:
        try:
            return self._read_line()
        except KeyboardInterrupt:
            self._print("/exit or Ctrl-D leaves.")
            return ""

    def _take_turn(self, line: str) -> None:
        started, claims_before = self._assistant.clock(), self._assistant.report().total.claims
        self._answer(line)
        seconds = self._assistant.clock() - started
        claimed = self._assistant.report().total.claims - claims_before
        note = f", {claimed} tool call{'s' * (claimed > 1)} predicted" if claimed else ""
        self._print(f"({seconds:.2f} s{note})", style="dim")

    def _answer(self, line: str) -> None:
        remembered = len(self._conversation)
        view = ConversationView(self._console)
        try:
            # The runner turns Ctrl-C into a cancellation of the turn, which frees what it holds.
            self._assistant.runner.run(self._conversation.ask(line, view))
        except KeyboardInterrupt:
            self._print("\n(stopped)")
        except PromptTooLongError as error:
            forgotten = " The conversation so far has been dropped." if remembered else ""
            self._print(f"\n{error}{forgotten}")
        except RequestError as error:
            self._print(f"\n{error}")

    def _print(self, line: str, style: str = "") -> None:
        self._console.print(Text(printable(line), style=style), soft_wrap=True)
