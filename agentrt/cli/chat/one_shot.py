"""One question and its answer, for scripts and pipes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from langchain_core.messages import AIMessage, ToolMessage

from ...tools.speculable import speculable_tool
from .approval import DECLINED
from .views import StreamView

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

    from agentrt.examples.chat.conversation import Conversation

    from .assistant import Assistant


def answer_once(
    assistant: Assistant,
    conversation: Conversation,
    question: str,
    refused: Sequence[str] = (),
    *,
    as_json: bool,
) -> None:
    """Print the answer alone on standard output: while it is generated on a terminal, else at its end.

    ``refused`` has the calls that were refused meanwhile, once the answer is complete.

    Raises:
        Exit: with 130 after Ctrl-C, with 1 if a call was refused, a write failed, or the model has written no
            answer or not its end.
        RequestError: the question cannot be answered.
    """
    stream = sys.stdout.isatty() and not as_json
    from agentrt.examples.chat.conversation import SilentView

    view = StreamView(sys.stdout) if stream else SilentView()
    started = time.perf_counter()
    try:
        messages = assistant.runner.run(conversation.ask(question, view))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - started
    answer = _answer(messages)
    if as_json:
        print(json.dumps(_report(assistant, conversation, messages, seconds)), flush=True)
    elif not stream and answer.text:
        print(answer.text, flush=True)  # a reader that has gone is an error now, and not when Python ends
    _check_complete(answer, refused, _failed_writes(assistant, messages))


def _failed_writes(assistant: Assistant, messages: Sequence[AnyMessage]) -> list[str]:
    """Return the names of tools that change data and have failed, not of those that the user has declined."""
    writes = {tool.name for tool in assistant.tools if not speculable_tool(tool)}
    results = [message for message in messages if isinstance(message, ToolMessage) and message.name in writes]
    failed = [each for each in results if each.text.startswith('{"error"') and DECLINED not in each.text]
    return [each.name or "" for each in failed]


def _answer(messages: Sequence[AnyMessage]) -> AIMessage:
    """Return the last message that the model has written. The agent itself writes one that ends a run."""
    written = (message for message in reversed(messages) if isinstance(message, AIMessage))
    return next(message for message in written if _finish_reason(message) is not None)


def _check_complete(message: AIMessage, refused: Sequence[str], failed: Sequence[str]) -> None:
    if refused:
        problem = (
            f"{' and '.join(refused)} did not run: without a terminal nobody can be asked. Give "
            "--allow-writes to let it run."
        )
    elif failed:
        problem = f"{' and '.join(failed)} did not do its work; the answer says why."
    elif _finish_reason(message) == "length":
        problem = "the answer was cut off. Raise --max-tokens."
    elif message.tool_calls:
        problem = (
            "the model called tools again and again, and was stopped before it had written an answer. Ask in "
            "other words, or choose a larger --model."
        )
    elif not message.text.strip():
        problem = "the model has written no answer. Ask in other words, or choose another --model."
    else:
        return
    print(f"agentrt: {problem}", file=sys.stderr)
    raise typer.Exit(1)


def _report(
    assistant: Assistant, conversation: Conversation, messages: list[AnyMessage], seconds: float
) -> dict[str, Any]:
    answer = _answer(messages)
    outputs = {message.tool_call_id: message.text for message in messages if isinstance(message, ToolMessage)}
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return {
        "model": assistant.runtime.model_id,
        "answer": answer.text,
        "finish_reason": _finish_reason(answer),
        "tool_calls": [
            {"name": call["name"], "arguments": call["args"], "output": outputs.get(call["id"] or "")}
            for call in calls
        ],
        "prompt_tokens": conversation.totals.prompt_tokens,
        "answer_tokens": conversation.totals.answer_tokens,
        "seconds": round(seconds, 3),
    }


def _finish_reason(message: AnyMessage) -> str | None:
    reason: str | None = message.response_metadata.get("finish_reason")
    return reason
