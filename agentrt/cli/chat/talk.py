"""One question, or a conversation: imports LangChain, which takes longer than to open a model."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import ModelError
from ..output import is_terminal, say
from .approval import Confirmation, RefusedWrites, WhyNot
from .assistant import Assistant, open_assistant
from .one_shot import answer_once
from .saved_turns import SavedTurns

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

    from agentrt.runtime import EmbeddingModel

    from .opener import ModelOpener


def answer_or_talk(
    asked: str | None,
    model: str,
    opener: ModelOpener,
    ready: Callable[[], None],
    *,
    data: Sequence[str],
    embedding_model: str | None,
    max_tokens: int | None,
    as_json: bool,
    resume: bool,
    allow_writes: bool,
    verbose: bool,
    weather_delay: float,
) -> None:
    """Answer ``asked``, or talk if it is None, on the model that ``opener`` opens; see :func:`chat`.

    ``ready`` is called once the assistant is open.
    """
    from agentrt.examples.assistant.imap import open_mail
    from agentrt.examples.chat.conversation import Conversation

    saved = SavedTurns() if asked is None or resume else None
    turns = saved.load() if saved and resume else []
    # Once, for whatever models the conversation goes on with.
    mail = open_mail(data, say if is_terminal(sys.stderr) else lambda _: None)
    refused = RefusedWrites()
    with asyncio.Runner() as runner:
        open_on = partial(
            open_assistant,
            runner=runner,
            opener=opener,
            data=[mail[each].folder if each in mail else Path(each) for each in data],
            mirrors=list(mail.values()),
            embedding=_embedding(embedding_model),
            max_tokens=max_tokens,
            weather_delay=weather_delay,
            why_not=None if allow_writes else _why_not(refused, talks=asked is None),
        )
        if asked is None:
            _talk(runner, model, open_on, saved, turns, ready, verbose=verbose)
            return
        with open_on(model) as assistant:
            ready()
            for line in assistant.told if is_terminal(sys.stderr) else ():
                print(line, file=sys.stderr)
            conversation = Conversation(assistant.agent, assistant.runtime.context_length, saved, turns)
            answer_once(assistant, conversation, asked, refused.calls, as_json=as_json)


def _embedding(model: str | None) -> EmbeddingModel | None:
    if model is None:
        return None
    from agentrt.runtime import EmbeddingModel

    return EmbeddingModel.open(model)


def _talk(
    runner: asyncio.Runner,
    model: str,
    open_model: Callable[[str], AbstractContextManager[Assistant]],
    saved: SavedTurns | None,
    turns: list[list[AnyMessage]],
    ready: Callable[[], None],
    *,
    verbose: bool,
) -> None:
    """Talk until the user leaves, on one model after the other."""
    # Imported here: one question needs no terminal.
    from rich.console import Console

    from agentrt.examples.chat.conversation import Conversation

    from .line_editor import LineEditor
    from .session import DESCRIPTIONS, ChatSession

    editor = LineEditor(runner, DESCRIPTIONS)
    console, before = Console(highlight=False, emoji=False), ""
    while model:
        try:
            with open_model(model) as assistant:
                ready()
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


def _why_not(refused: RefusedWrites, *, talks: bool) -> WhyNot:
    """Return what asks the user about a call; ``refused.why_not`` where there is no terminal for that."""
    if talks:
        return Confirmation().why_not
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        from prompt_toolkit.output import create_output

        return Confirmation(create_output(sys.stderr)).why_not  # standard output has the answer alone
    return refused.why_not
