"""What is printed while the model answers."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from ...terminal_text import printable

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage
    from rich.console import Console


class SilentView:
    """Prints nothing."""

    def token(self, text: str) -> None:
        """Print nothing."""

    def message(self, message: AnyMessage) -> None:
        """Print nothing."""


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
        """End the line of a text."""
        if self._streamed:
            self._file.write("\n")
            self._file.flush()
        self._streamed = False


class ConversationView(StreamView):
    """Prints text while it is generated, and tool calls and results when they are complete."""

    def __init__(self, console: Console) -> None:
        """Print on ``console``."""
        super().__init__(console.file)
        self._console = console

    def message(self, message: AnyMessage) -> None:
        """Print calls and results, and the text of a message that was not streamed."""
        from rich.text import Text

        from agentrt.examples.assistant.view import describe

        streamed = self._streamed
        super().message(message)
        text = printable(" ".join(message.text.split()))
        for line in describe(message):
            if not streamed or line != text:
                self._console.print(Text(f"  {line}", style="dim"), soft_wrap=True)
