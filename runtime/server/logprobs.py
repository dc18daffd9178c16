"""Log probabilities in OpenAI's format, and how many one request may have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agentrt.errors import InvalidRequestError

from ..engine.logprobs import TokenLogprobs
from ..http.large_json import give_way
from ..request.options import GenerationOptions
from ..service import LocalRuntime

MAX_LOGPROBS: Final = 1 << 16
"""Log probabilities of all answers to one request: some 100 bytes each in memory until they are sent, as much
again in the body, and some microseconds to write."""


def bound_logprobs(options: GenerationOptions, answers: int) -> None:
    """Bound ``max_tokens`` of ``options``: all ``answers`` have at most :data:`MAX_LOGPROBS` together.

    Raises:
        InvalidRequestError: the request sets a larger ``max_tokens``.
    """
    alternatives = options.get("logprobs")
    if alternatives is None:
        return
    most = max(1, MAX_LOGPROBS // (answers * (1 + alternatives)))
    given = options.get("max_tokens")
    if given is not None and given > most:
        raise InvalidRequestError(
            "logprobs",
            f"{answers} answers of {given} tokens with {alternatives} alternatives each have more than "
            f"{MAX_LOGPROBS} log probabilities. Ask for at most {most} tokens, or for fewer alternatives or "
            "answers.",
        )
    options["max_tokens"] = given or most


def format_logprobs(runtime: LocalRuntime, tokens: Iterable[TokenLogprobs]) -> list[dict[str, Any]]:
    """Return one object per token, with its most likely alternatives."""

    def format_token(token: int, logprob: float) -> dict[str, Any]:
        text = runtime.token_text(token)
        return {"token": text.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(text)}

    formatted = []
    for entry in give_way(tokens):
        top = [format_token(token, logprob) for token, logprob in entry.top]
        formatted.append(format_token(entry.token, entry.logprob) | {"top_logprobs": top})
    return formatted
