"""What is printed of a conversation."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from langchain_core.messages import AIMessage, ToolMessage

from ...terminal_text import printable

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage
    from rich.console import Console


class StreamView:
    """Prints the text of the model as it comes, and nothing else."""

    def __init__(self, file: IO[str]) -> None:
        """Print on ``file``, a terminal."""
        self._file = file
        self._streamed = False

    def token(self, text: str) -> None:
        """Print the text at once, without layout."""
        # Rich would expand tabs, replace :names: by emoji, and pass escape sequences on.
        self._file.write(printable(text))
        self._file.flush()
        self._streamed = self._streamed or bool(text)

    def message(self, message: AnyMessage) -> None:
        """End the line of a text, or print one that was not streamed."""
        if isinstance(message, AIMessage) and not self._streamed:
            self.token(message.text)
        if self._streamed:
            self._file.write("\n")
            self._file.flush()
        self._streamed = False


class ConversationView(StreamView):
    """Prints text while it is generated, and tool calls when they are complete."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        """Print on ``console``; if ``verbose``, results of tools as well."""
        super().__init__(console.file)
        self._console = console
        self._verbose = verbose

    def message(self, message: AnyMessage) -> None:
        """Print a text that was not streamed, calls, and perhaps a result."""
        from rich.text import Text

        from agentrt.examples.assistant.view import describe_calls, describe_result

        super().message(message)
        lines = describe_calls(message)
        if self._verbose and isinstance(message, ToolMessage):
            lines = [describe_result(message)]
        for line in lines:
            self._console.print(Text(f"  {line}", style="dim"), soft_wrap=True)
