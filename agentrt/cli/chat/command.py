"""``agentrt chat``: ask the personal assistant one question, or talk with it."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ...errors import ModelError
from ...extras import require_extra
from ..kept_contexts import no_context_folder_option
from ..options import WeatherDelay, complete_model, own_data
from ..output import say

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

    from .approval import RefusedWrites, WhyNot
    from .assistant import Assistant
    from .line_editor import LineEditor
    from .saved_turns import SavedTurns


def chat(
    question: Annotated[
        str | None,
        typer.Argument(
            help="Answer this and exit. Text that is piped in is read with it, or is the question itself. "
            "Without either, a conversation begins.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A folder with an OpenVINO model, a GGUF file, a pulled name, or nano, the demonstration "
            "model. Without it, what you have chosen on the first start.",
            autocompletion=complete_model,
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        own_data(
            "New notes and events are written there, once you agree; mail on a server is only read.",
            servers=", imaps://USER@HOST/FOLDER",
        ),
    ] = None,
    embedding_model: Annotated[
        str | None,
        typer.Option(
            help="A folder with an OpenVINO embedding model, or a pulled name: notes, mail and files are "
            "then found by what they mean, too.",
            show_default=False,
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens that the model may write at once; 256 by default for nano, 1024 for other models.",
            min=1,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the answer to one question as JSON, with its tool calls."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last conversation, which is kept.")
    ] = False,
    allow_writes: Annotated[
        bool,
        typer.Option(
            "--allow-writes", help="Run tools that change data, such as create_note, without asking."
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="In a conversation, print what tools return, too.")
    ] = False,
    no_context_folder: Annotated[bool, no_context_folder_option()] = False,
    weather_delay: WeatherDelay = 0.2,
) -> None:
    """Ask the personal assistant one question, or talk with it.

    One question: the answer alone goes to standard output. Exits with 1 if the answer is empty or cut off, or
    a tool that changes data could not ask first; with 2 on an error, with 130 after Ctrl-C.

    Conversation: /help lists the commands. Ctrl-C stops an answer, Ctrl-D leaves.
    """
    require_extra("demo")
    from agentrt.examples.assistant.imap import open_mail
    from agentrt.examples.chat.conversation import Conversation

    from .approval import RefusedWrites
    from .assistant import open_assistant
    from .first_model import model_of_chat
    from .line_editor import LineEditor
    from .one_shot import answer_once, read_question
    from .saved_turns import SavedTurns
    from .session import DESCRIPTIONS

    if isinstance(sys.stdout, io.TextIOWrapper):  # an answer may have characters that its encoding lacks
        sys.stdout.reconfigure(errors="replace")
    talk = question is None and _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
    if talk and as_json:
        raise typer.BadParameter("needs a question: agentrt chat --json QUESTION", param_hint="--json")
    asked = "" if talk else read_question(question, sys.stdin)
    saved = SavedTurns() if talk or resume else None
    turns = saved.load() if saved and resume else []
    model = model or model_of_chat(asks=talk)
    # Once, for whatever models the conversation goes on with.
    mail = open_mail(data or (), say if _is_terminal(sys.stderr) else lambda _: None)
    embedding = None
    if embedding_model is not None:
        from agentrt.runtime import EmbeddingModel

        embedding = EmbeddingModel.open(embedding_model)
    refused = RefusedWrites()
    with asyncio.Runner() as runner:
        open_model = partial(
            open_assistant,
            runner=runner,
            data=[mail[each].folder if each in mail else Path(each) for each in data or ()],
            mirrors=list(mail.values()),
            embedding=embedding,
            max_tokens=max_tokens,
            weather_delay=weather_delay,
            why_not=None if allow_writes else _why_not(refused, talk=talk),
            keeps_contexts=not no_context_folder,
        )
        if talk:
            _talk(model, open_model, LineEditor(runner, DESCRIPTIONS), saved, turns, verbose=verbose)
            return
        with open_model(model) as assistant:
            if _is_terminal(sys.stderr):
                for line in assistant.told:
                    print(line, file=sys.stderr)
            conversation = Conversation(assistant.agent, assistant.runtime.context_length, saved, turns)
            answer_once(assistant, conversation, asked, refused.calls, as_json=as_json)


def _talk(
    model: str,
    open_model: Callable[[str], AbstractContextManager[Assistant]],
    editor: LineEditor,
    saved: SavedTurns | None,
    turns: list[list[AnyMessage]],
    *,
    verbose: bool,
) -> None:
    """Talk until the user leaves, on one model after the other."""
    from rich.console import Console

    from agentrt.examples.chat.conversation import Conversation

    from .session import ChatSession

    console, before = Console(highlight=False, emoji=False), ""
    while model:
        try:
            with open_model(model) as assistant:
                for line in () if before else assistant.told:
                    print(line)
                conversation = Conversation(assistant.agent, assistant.runtime.context_length, saved, turns)
                session = ChatSession(
                    assistant, conversation, console, editor.read, editor.print_above, verbose=verbose
                )
                session.introduce()
                model, before = session.run(), model
                turns = conversation.turns
        except ModelError as error:
            if not before:
                raise
            say(str(error))
            model, before = before, ""


def _why_not(refused: RefusedWrites, *, talk: bool) -> WhyNot:
    """Return what asks the user about a call; ``refused.why_not`` where there is no terminal for that."""
    from prompt_toolkit.output import create_output

    from .approval import Confirmation

    if talk:
        return Confirmation().why_not
    if _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
        return Confirmation(create_output(sys.stderr)).why_not  # standard output has the answer alone
    return refused.why_not


def _is_terminal(file: TextIO | None) -> bool:
    """Whether ``file`` is a terminal; a closed one is None."""
    return file is not None and file.isatty()
