"""Log probabilities in OpenAI's format, the same in both interfaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine.logprobs import TokenLogprobs
from ..service import LocalRuntime


def format_logprobs(runtime: LocalRuntime, tokens: Iterable[TokenLogprobs]) -> list[dict[str, Any]]:
    """Return one object per token, with its most likely alternatives."""

    def format_token(token: int, logprob: float) -> dict[str, Any]:
        text = runtime.token_text(token)
        return {"token": text.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(text)}

    return [
        format_token(entry.token, entry.logprob)
        | {"top_logprobs": [format_token(token, logprob) for token, logprob in entry.top]}
        for entry in tokens
    ]
