"""A chat with an echo, as a program of its own: ``python -m tests.agentrt.cli.chat.echo_chat``."""

from __future__ import annotations

import asyncio

from rich.console import Console

from agentrt.cli.chat.approval import Confirmation
from agentrt.cli.chat.line_editor import LineEditor
from agentrt.cli.chat.session import DESCRIPTIONS, ChatSession
from tests.agentrt.cli.chat.echo import Streaming, conversation_with, echo_assistant

if __name__ == "__main__":
    with asyncio.Runner() as runner:
        editor = LineEditor(runner, DESCRIPTIONS)
        assistant = echo_assistant(runner, Streaming(requests=[]), why_not=Confirmation().why_not)
        conversation = conversation_with(assistant)
        ChatSession(assistant, conversation, Console(highlight=False, emoji=False), editor.read).run()
