"""A conversation on the terminal: questions and commands in, answers out, until the user leaves."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from rich.table import Table
from rich.text import Text

from ...errors import PromptTooLongError, RequestError, RuntimeClosedError
from ...terminal_text import printable
from ...tools.speculable import speculable_tool
from ..config_file import did_you_mean
from .views import ConversationView

if TYPE_CHECKING:
    from rich.console import Console

    from agentrt.examples.chat.conversation import Conversation

    from .assistant import Assistant


PrintAbove: TypeAlias = Callable[[Callable[[], None]], Awaitable[bool]]
"""Calls a function that prints above an empty prompt; returns False, and prints nothing, where none is."""
DESCRIPTIONS: Final = {
    "/help": "this list",
    "/model": "the model; with a name or a path: go on with that one",
    "/tools": "the tools, and which change data",
    "/stats": "answers, tokens and memory so far",
    "/new": "begin a new conversation",
    "/exit": "leave, as Ctrl-D does",
}
"""The names of the commands, with their slash, and what each does."""


class ChatSession:
    """Reads lines, and answers them or runs their commands: a slash and a name."""

    def __init__(
        self,
        assistant: Assistant,
        conversation: Conversation,
        console: Console,
        read_line: Callable[[], str],
        print_above: PrintAbove | None = None,
        *,
        verbose: bool = False,
    ) -> None:
        """``read_line`` raises EOFError at the end of the input, and KeyboardInterrupt on Ctrl-C.

        With ``print_above``, news in the user's own data is told. If ``verbose``, what tools return is
        printed, too.
        """
        self._verbose = verbose
        self._assistant = assistant
        self._console = console
        self._read_line = read_line
        self._print_above = print_above
        self._conversation = conversation
        self._watching: asyncio.Task[None] | None = None
        self._left = False
        self._next_model = ""
        self._commands: dict[str, Callable[[], None]] = {
            "/help": self._help,
            "/model": self._model,
            "/tools": self._tools,
            "/stats": self._stats,
            "/new": self._new,
            "/exit": self._exit,
        }

    def introduce(self) -> None:
        """Print what can be asked, or what was said last, where the model is, and how to leave."""
        from agentrt.examples.chat.served import ServedChat

        if last := self._conversation.last:
            self._print(f"You had asked: {last[0]}\n{last[1]}")
        else:
            self._print("Ask about notes, calendar, mail, files or the weather, such as:")
            for question in self._assistant.examples:
                self._print(f"  {question}")
        if isinstance(runtime := self._assistant.runtime, ServedChat):
            self._print(f"{runtime.model_id} is open in agentrt serve at {runtime.address}, which answers.")
        self._print("/help lists commands. Ctrl-C stops an answer, Ctrl-D leaves.")

    def run(self) -> str:
        """Go on until the input ends or ``/exit`` is read. Ctrl-C ends an answer, not this.

        Returns the model that the user wants to go on with; an empty name if none.
        """
        self._watch_news()
        try:
            while not self._left:
                # An interrupt may come at any time, also a second one while an answer is being stopped.
                try:
                    self._console.print()
                    self._tell_failure()
                    line = self._next_line()
                    if line and not self._run_command(line):
                        self._take_turn(line)
                except EOFError:
                    break
                except KeyboardInterrupt:
                    continue
        finally:
            self._stop_watching()
        return self._next_model

    def _watch_news(self) -> None:
        """Begin to tell what comes meanwhile, above the prompt."""
        away, print_above = self._assistant.away, self._print_above
        if away is None or print_above is None:
            return

        async def show(text: str) -> bool:
            return await print_above(lambda: self._print(f"{text}\n"))

        watch = away.watch(self._conversation, show)
        self._watching = self._assistant.runner.get_loop().create_task(watch)

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._assistant.runner.run(asyncio.wait([self._watching]))
            self._tell_failure()

    def _tell_failure(self) -> None:
        """Say once why news is not told any more, if it has failed."""
        if self._watching is not None and self._watching.done():
            watched, self._watching = self._watching, None
            if not watched.cancelled() and (error := watched.exception()):
                self._print(f"What is new is not told any more: {error or type(error).__name__}")

    def _next_line(self) -> str:
        try:
            return self._read_line()
        except KeyboardInterrupt:
            self._print("/exit or Ctrl-D leaves.")
            return ""

    def _take_turn(self, line: str) -> None:
        started = time.perf_counter()
        self._answer(line)
        self._print(f"({time.perf_counter() - started:.2f} s)", style="dim")
        if self._assistant.away is not None:
            self._assistant.away.look_again()

    def _answer(self, line: str) -> None:
        remembered = len(self._conversation)
        view = ConversationView(self._console, verbose=self._verbose)
        try:
            # The runner turns Ctrl-C into a cancellation of the turn, which frees what it holds.
            messages = self._assistant.runner.run(self._conversation.ask(line, view))
            if not messages[-1].text.strip():
                self._print("The model has written no answer. Ask in other words, or choose another --model.")
        except KeyboardInterrupt:
            self._print("\n(stopped)")
        except PromptTooLongError as error:
            forgotten = " The conversation so far has been dropped." if remembered else ""
            self._print(f"\n{error}{forgotten}")
        except (RequestError, RuntimeClosedError) as error:
            self._print(f"\n{error}")

    def _run_command(self, line: str) -> bool:
        """Run the command in ``line``; return False if ``line`` is none, such as a path or a question."""
        name, _, argument = line.partition(" ")
        if not re.fullmatch(r"/[A-Za-z]*", name):
            return False
        command = self._commands.get(name)
        if command is None:
            hint = did_you_mean(name, self._commands)
            self._print(f"There is no command {name}.{hint} /help lists the commands.")
        elif name == "/model" and argument.strip():
            self._next_model, self._left = argument.strip(), True
        else:
            command()
        return True

    def _help(self) -> None:
        table = Table.grid(padding=(0, 2))
        for name, help in DESCRIPTIONS.items():
            table.add_row(name, help)
        self._console.print(table)
        self._print("Ctrl-C stops an answer. Ctrl-D leaves.")

    def _model(self) -> None:
        runtime = self._assistant.runtime
        self._print(f"{runtime.model_id}, {runtime.context_length} tokens of context")
        self._print("Another one: /model NAME; agentrt models lists those on this machine.")

    def _tools(self) -> None:
        table = Table.grid(padding=(0, 2))
        writes = "asks before it runs" if self._assistant.asks_before_writes else "runs when it is called"
        for tool in self._assistant.tools:
            runs = "only reads" if speculable_tool(tool) else writes
            table.add_row(tool.name, Text(tool.description.partition("\n")[0]), runs)
        self._console.print(table)

    def _stats(self) -> None:
        from agentrt.examples.chat.served import ServedChat

        totals = self._conversation.totals
        self._print(f"answers:    {totals.answers} in {totals.seconds:.2f} s")
        self._print(
            f"tokens:     {totals.prompt_tokens} of prompts, {totals.cached_tokens} of them from the prefix "
            f"cache; {totals.answer_tokens} of answers"
        )
        if isinstance(runtime := self._assistant.runtime, ServedChat):
            self._print(f"KV cache:   that of agentrt serve at {runtime.address}")
            return
        statistics = runtime.statistics()
        running = statistics.engine.running + statistics.engine.waiting
        self._print(
            f"KV cache:   {statistics.arena_bytes / 2**20:.0f} MiB in {statistics.blocks} blocks, "
            f"{statistics.free_blocks} of them free; {running} requests in progress"
        )

    def _new(self) -> None:
        self._conversation.forget()
        self._print("This is a new conversation.")

    def _exit(self) -> None:
        self._left = True

    def _print(self, line: str, style: str = "") -> None:
        self._console.print(Text(printable(line), style=style), soft_wrap=True)
