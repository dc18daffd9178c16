"""The commands of a conversation: lines of a slash and a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from ...tools.speculable import speculable_tool
from ..nearest import did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from .assistant import Assistant
    from .conversation import Conversation


DESCRIPTIONS: Final = {
    "/help": "this list",
    "/model": "the model, and how to choose another one",
    "/tools": "the tools that the model can call",
    "/stats": "answers, tokens, predicted tool calls and memory so far",
    "/new": "begin a new conversation",
    "/exit": "leave, as Ctrl-D does",
}
"""The names of the commands, with their slash, and what each does."""


class SlashCommands:
    """The commands on one conversation, which print on a console."""

    def __init__(self, assistant: Assistant, conversation: Conversation, console: Console) -> None:
        """The commands show ``assistant`` and ``conversation``, and begin it anew."""
        self._assistant = assistant
        self._conversation = conversation
        self._console = console
        self._commands: dict[str, Callable[[], None]] = {
            "/help": self._help,
            "/model": self._model,
            "/tools": self._tools,
            "/stats": self._stats,
            "/new": self._new,
            "/exit": self._exit,
        }
        self.left = False
        """Whether ``/exit`` was run."""

    def run(self, line: str) -> bool:
        """Run the command in ``line``; return False if ``line`` is none, such as a path or a question."""
        name = line.partition(" ")[0]
        if not re.fullmatch(r"/[A-Za-z]*", name):
            return False
        command = self._commands.get(name)
        if command is None:
            hint = did_you_mean(name, self._commands)
            self._print(f"There is no command {name}.{hint} /help lists the commands.")
        else:
            command()
        return True

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def _help(self) -> None:
        table = Table.grid(padding=(0, 2))
        for name, help in DESCRIPTIONS.items():
            table.add_row(name, help)
        self._console.print(table)
        self._print("Ctrl-C stops an answer. Ctrl-D leaves.")

    def _model(self) -> None:
        runtime = self._assistant.runtime
        self._print(f"{runtime.model_id}, {runtime.context_length} tokens of context")
        self._print("Another one: agentrt chat --model NAME; agentrt models lists those on this machine.")

    def _tools(self) -> None:
        table = Table.grid(padding=(0, 2))
        writes = "asks before it runs" if self._assistant.asks_before_writes else "runs when it is called"
        for tool in self._assistant.tools:
            ahead = "may run before it is called" if speculable_tool(tool) else writes
            table.add_row(tool.name, Text(tool.description.partition("\n")[0]), ahead)
        self._console.print(table)

    def _stats(self) -> None:
        totals, tools = self._conversation.totals, self._assistant.report().total
        statistics = self._assistant.runtime.statistics()
        self._print(f"answers:    {totals.answers} in {totals.seconds:.2f} s")
        self._print(
            f"tokens:     {totals.prompt_tokens} of prompts, {totals.cached_tokens} of them from the prefix "
            f"cache; {totals.answer_tokens} of answers"
        )
        self._print(
            f"tool calls: {tools.claims} of {tools.calls} predicted, {tools.saved_s:.2f} s saved, "
            f"{tools.wasted} wasted runs"
        )
        running = statistics.engine.running + statistics.engine.waiting
        self._print(
            f"KV cache:   {statistics.arena_bytes / 2**20:.0f} MiB in {statistics.blocks} blocks, "
            f"{statistics.free_blocks} of them free; {running} requests in progress"
        )

    def _new(self) -> None:
        self._conversation.forget()
        self._print("This is a new conversation.")

    def _exit(self) -> None:
        self.left = True
