"""Log probabilities in OpenAI's format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ...engine.logprobs import TokenLogprobs
from ...local.service import LocalRuntime
from ..http.large_json import give_way

MAX_LOGPROBS: Final = 1 << 16
"""Of all answers to one request: some 100 bytes each in memory until they are sent, as much
again in the body, and some microseconds to write."""


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
