"""Log probabilities of sampled tokens and of their likeliest alternatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Logits: TypeAlias = NDArray[np.float32]


class TokenLogprobs(NamedTuple):
    """Natural log probabilities of a sampled token and of the likeliest tokens at its position.

    They are the model's own: computed before grammar, bias, penalty and temperature.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The likeliest tokens and their log probabilities, likeliest first; may include ``token``. Impossible
    tokens, whose logits are -inf, are left out."""

    def in_openai_form(self, text_of: Callable[[int], bytes]) -> dict[str, Any]:
        """Return the token with its likeliest alternatives as OpenAI writes them.

        ``text_of`` returns the text of a token, which may be part of a character.
        """
        sampled, *top = (
            {"token": text.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(text)}
            for text, logprob in ((text_of(token), value) for token, value in (self[:2], *self.top))
        )
        return sampled | {"top_logprobs": top}


def token_logprobs(logits: Logits, token: int, alternatives: int) -> TokenLogprobs:
    """Return the log probability of ``token`` and of the ``alternatives`` likeliest tokens.

    ``logits`` is one row, ``[vocabulary]``; it is not changed.
    """
    scores = logits.astype(np.float64)
    scores -= scores.max()
    scores -= math.log(np.exp(scores).sum())
    likeliest = _likeliest(scores, min(alternatives, int(np.isfinite(scores).sum())))
    return TokenLogprobs(token, float(scores[token]), tuple((int(id), float(scores[id])) for id in likeliest))


def _likeliest(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the ids of the ``count`` highest scores, highest first, and of equal ones the lowest id first.

    Sorting the whole vocabulary would take ten milliseconds for each token of a large one.
    """
    if count == 0:
        return np.empty(0, np.int64)
    least = np.partition(scores, scores.size - count)[scores.size - count]
    candidates = np.flatnonzero(scores >= least)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:count]
