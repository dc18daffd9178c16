"""Log probabilities in OpenAI's shape, the same in both interfaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine.logprobs import TokenLogprobs
from ..service import LocalRuntime


def described(runtime: LocalRuntime, tokens: Iterable[TokenLogprobs]) -> list[dict[str, Any]]:
    """One object a token, with its likeliest alternatives."""

    def one(token: int, logprob: float) -> dict[str, Any]:
        text = runtime.token_text(token)
        return {"token": text.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(text)}

    return [
        one(entry.token, entry.logprob)
        | {"top_logprobs": [one(token, logprob) for token, logprob in entry.top]}
        for entry in tokens
    ]
