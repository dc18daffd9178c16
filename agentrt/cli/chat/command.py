"""``agentrt chat``: ask the personal assistant one question, or talk with it."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from ...extras import require_extra
from ..kept_contexts import no_context_folder_option
from ..options import WeatherDelay, complete_model, own_data
from ..output import is_terminal
from ..startup import postponed_collections


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
    from .first_model import model_of_chat
    from .opener import ModelOpener
    from .question import read_question
    from .served import find_served

    if isinstance(sys.stdout, io.TextIOWrapper):  # an answer may have characters that its encoding lacks
        sys.stdout.reconfigure(errors="replace")
    talks = question is None and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if talks and as_json:
        raise typer.BadParameter("needs a question: agentrt chat --json QUESTION", param_hint="--json")
    asked = None if talks else read_question(question, sys.stdin)
    model = model or model_of_chat(asks=talks)
    with ModelOpener(keeps_contexts=not no_context_folder) as opener, postponed_collections() as collect:
        if find_served(model) is None:
            opener.begin(model)
        # Imported here, with all of LangChain, while the model is opened.
        from .talk import answer_or_talk

        answer_or_talk(
            asked,
            model,
            opener,
            collect,
            data=data or (),
            embedding_model=embedding_model,
            max_tokens=max_tokens,
            as_json=as_json,
            resume=resume,
            allow_writes=allow_writes,
            verbose=verbose,
            weather_delay=weather_delay,
        )
