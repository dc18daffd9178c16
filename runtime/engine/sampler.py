"""From logits to the next token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentrt.errors import InvalidRequestError

from ..structured_output.grammar_matcher import GrammarMatcher

Logits: TypeAlias = NDArray[np.float32]

_MAX_STOPS = 16
_MAX_BIASES = 1024
_MAX_LOGPROBS = 20


class TokenLogprobs(NamedTuple):
    """How probable the model found a token and its likeliest alternatives, as natural logarithms.

    These are the model's own probabilities: those before constraint, bias, penalty and temperature.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The likeliest tokens with their logarithms, likeliest first; may include ``token``."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request's tokens are chosen, and when it ends. The defaults are greedy and unlimited.

    Applied in this order: what a valid answer allows, logit bias, repetition penalty, temperature,
    top-k, top-p, min-p.

    Raises:
        InvalidRequestError: a value is out of its range or not of its type; ``field`` names it.
    """

    max_tokens: int | None = None
    """At most this many tokens; None for as many as context and arena hold."""
    temperature: float = 0.0
    """0 takes the likeliest token; otherwise logits are divided by it. At most 100."""
    top_p: float = 1.0
    """Keep the likeliest tokens that together have this probability. In (0, 1]."""
    top_k: int = 0
    """Keep this many of the likeliest tokens; 0 for all."""
    min_p: float = 0.0
    """Keep tokens at least this many times as likely as the likeliest. In [0, 1]."""
    repetition_penalty: float = 1.0
    """Divide positive, multiply negative logits of tokens that have occurred. In (0, 100]."""
    seed: int | None = None
    """Fixes this request's random numbers, whatever it is batched with. 0 … 2**63 - 1."""
    ignore_eos: bool = False
    """Go on after the model's own end tokens, as benches do."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are not part of it."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end the answer beside the model's own; they are not part of the text."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of these token ids. Each in [-100, 100]."""
    logprobs: int | None = None
    """Report the probability of each token and of this many likeliest ones, 0 to 20; None reports none."""

    def __post_init__(self) -> None:
        """Check every value."""
        if self.max_tokens is not None:
            _check_int("max_tokens", self.max_tokens, 1, None)
        _check_number("temperature", self.temperature, 0.0, 100.0)
        _check_number("top_p", self.top_p, 0.0, 1.0, open_below=True)
        _check_int("top_k", self.top_k, 0, None)
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("repetition_penalty", self.repetition_penalty, 0.0, 100.0, open_below=True)
        if self.seed is not None:
            _check_int("seed", self.seed, 0, 2**63 - 1)
        if not isinstance(self.ignore_eos, bool):
            raise InvalidRequestError("ignore_eos", f"{self.ignore_eos!r} is not a bool. Use True or False.")
        _check_items("stop", self.stop, str, _MAX_STOPS)
        if "" in self.stop:
            raise InvalidRequestError(
                "stop", "a stop text is empty. Remove it, or give at least one character."
            )
        _check_items("stop_token_ids", self.stop_token_ids, int, _MAX_STOPS)
        if not isinstance(self.logit_bias, Mapping) or len(self.logit_bias) > _MAX_BIASES:
            raise InvalidRequestError(
                "logit_bias", f"must map at most {_MAX_BIASES} token ids to numbers. Give a smaller dict."
            )
        if self.logprobs is not None:
            _check_int("logprobs", self.logprobs, 0, _MAX_LOGPROBS)
        for token, bias in self.logit_bias.items():
            _check_int("logit_bias", token, 0, None)
            _check_number("logit_bias", bias, -100.0, 100.0)

    def check_vocabulary(self, vocabulary_size: int) -> None:
        """Check the token ids against the model's vocabulary.

        Raises:
            InvalidRequestError: an id does not exist.
        """
        for name, ids in (("stop_token_ids", self.stop_token_ids), ("logit_bias", self.logit_bias)):
            for id in ids:
                _check_int(name, id, 0, vocabulary_size - 1)


class TokenSampler:
    """Chooses one sequence's tokens. Its random numbers are its own, so batching cannot change them."""

    def __init__(
        self,
        params: SamplingParams,
        vocabulary_size: int,
        prompt: Sequence[int],
        constraint: GrammarMatcher | None = None,
    ) -> None:
        """``prompt`` counts as having occurred for the repetition penalty."""
        self._params = params
        self._constraint = constraint
        self._random = np.random.default_rng(params.seed) if params.temperature else None
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(params.logit_bias.values(), np.float32)
        self._occurred: NDArray[np.bool_] | None = None
        if params.repetition_penalty != 1.0:
            self._occurred = np.zeros(vocabulary_size, np.bool_)
            self._occurred[list(prompt)] = True
        self._takes_logits_as_they_are = self._occurred is None and not len(self._bias_ids)
        self.logprobs: list[TokenLogprobs] = []
        """One entry a chosen token, if they were asked for."""
        self.takes_argmax = (
            self._random is None
            and self._takes_logits_as_they_are
            and constraint is None
            and params.logprobs is None
        )
        """Whether :meth:`sample` is nothing but the argmax, which a batch computes faster at once."""

    def sample(self, logits: Logits) -> int:
        """Choose from the ``[vocabulary]`` logits of the last position; they are not changed."""
        token = self._choose(self._adjust(logits))
        if self._occurred is not None:
            self._occurred[token] = True
        if self._constraint is not None:
            self._constraint.accept_token(token)
        if self._params.logprobs is not None:
            self.logprobs.append(_logprobs(logits, token, self._params.logprobs))
        return token

    def begin_turn(self, given: Sequence[int]) -> None:
        """Go on behind ``given`` tokens as behind a prompt."""
        if self._occurred is not None:
            self._occurred[list(given)] = True
        if self._constraint is not None:
            self._constraint.reset()

    def _adjust(self, logits: Logits) -> Logits:
        """Apply what also concerns greedy decoding: constraint, biases and repetition penalty."""
        if self._constraint is not None and self._constraint.active:
            logits = self._constraint.mask_logits(logits)
        if self._takes_logits_as_they_are:
            return logits
        logits = logits.copy()
        logits[self._bias_ids] += self._bias
        if self._occurred is not None:
            seen = logits[self._occurred]
            penalty = np.float32(self._params.repetition_penalty)
            logits[self._occurred] = np.where(seen > 0, seen / penalty, seen * penalty)
        return logits

    def _choose(self, logits: Logits) -> int:
        if self._random is None:
            return int(logits.argmax())
        params = self._params
        ids = np.arange(len(logits))
        if 0 < params.top_k < len(logits):
            ids = np.argpartition(logits, -params.top_k)[-params.top_k :]
        scaled = logits[ids].astype(np.float64) / params.temperature
        weights = np.exp(scaled - scaled.max())
        if params.top_p < 1.0:
            order = np.argsort(-weights)
            ids, weights = ids[order], weights[order]
            # The token that crosses the threshold is kept, so at least one is.
            cumulative = np.cumsum(weights)
            keep = int(np.searchsorted(cumulative, params.top_p * cumulative[-1])) + 1
            ids, weights = ids[:keep], weights[:keep]
        if params.min_p > 0.0:
            likely = weights >= params.min_p  # the likeliest weighs 1
            ids, weights = ids[likely], weights[likely]
        cumulative = np.cumsum(weights)
        position = np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right")
        # Rounding may put the product on the end of the last interval.
        return int(ids[min(int(position), len(ids) - 1)])


def _logprobs(logits: Logits, token: int, alternatives: int) -> TokenLogprobs:
    scores = logits.astype(np.float64)
    scores -= scores.max()
    scores -= math.log(np.exp(scores).sum())
    likeliest = np.argsort(-scores, kind="stable")[:alternatives]
    return TokenLogprobs(token, float(scores[token]), tuple((int(id), float(scores[id])) for id in likeliest))


def sample_batch(samplers: Sequence[TokenSampler | None], logits: Logits) -> list[int | Exception]:
    """Choose one token per sampler from ``[rows, vocabulary]`` logits, row ``i`` for sampler ``i``.

    Where a sampler fails, the result is its error: that concerns one request and not the others. None wants
    no token, and gets any.
    """
    if all(sampler is None or sampler.takes_argmax for sampler in samplers):
        return logits.argmax(axis=-1).tolist()  # type: ignore[no-any-return]
    return [
        0 if sampler is None else _sample_or_error(sampler, row)
        for sampler, row in zip(samplers, logits, strict=True)
    ]


def _sample_or_error(sampler: TokenSampler, row: Logits) -> int | Exception:
    try:
        return sampler.sample(row)
    except Exception as error:  # noqa: BLE001 - it is handed to the one whose request this is
        return error


def _check_int(name: str, value: Any, low: int, high: int | None) -> None:
    allowed = f"at least {low}" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequestError(name, f"{value!r} is not an integer. Use one {allowed}.")
    if value < low or (high is not None and value > high):
        raise InvalidRequestError(name, f"{value} is out of range. Use an integer {allowed}.")


def _check_number(name: str, value: Any, low: float, high: float, *, open_below: bool = False) -> None:
    allowed = f"{'above' if open_below else 'from'} {low:g} up to {high:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidRequestError(name, f"{value!r} is not a finite number. Use one {allowed}.")
    if value > high or value < low or (open_below and value == low):
        raise InvalidRequestError(name, f"{value} is out of range. Use a number {allowed}.")


def _check_items(name: str, value: Any, kind: type, most: int) -> None:
    if not isinstance(value, tuple) or len(value) > most or not all(type(item) is kind for item in value):
        raise InvalidRequestError(
            name, f"must be at most {most} values of type {kind.__name__}. Give a list of them."
        )
