"""Sampling parameters of one request and their range checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentrt.errors import InvalidRequestError
from agentrt.finite import is_finite, shown

_MAX_STOPS: Final = 16
_MAX_STOP_CHARACTERS: Final = 256
"""The engine thread compares each token with all beginnings of all stop texts."""
MAX_BIASES: Final = 1024
"""Tokens with a bias in one request."""
_MAX_LOGPROBS: Final = 20


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the tokens of one request are sampled, and what ends the answer. The defaults are greedy decoding.

    Applied in this order: the grammar of the answer, logit bias, repetition penalty, frequency and presence
    penalty, temperature, top-k, top-p, min-p.

    Raises:
        InvalidRequestError: a value is out of its range or has the wrong type; ``field`` names it.
    """

    max_tokens: int | None = None
    """Maximum number of sampled tokens; None for as many as the context and the KV arena hold."""
    temperature: float = 0.0
    """Divisor of the logits, at most 100; 0 takes the likeliest token."""
    top_p: float = 1.0
    """Keep the likeliest tokens that together have this probability. In (0, 1]."""
    top_k: int = 0
    """Keep this many of the likeliest tokens; 0 for all."""
    min_p: float = 0.0
    """Keep tokens that are at least this many times as likely as the likeliest. In [0, 1]."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens that have occurred. In [0.01, 100]."""
    frequency_penalty: float = 0.0
    """Subtracted from the logit of a token for each time that the answer has it so far. In [-2, 2]."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of a token that the answer has already. In [-2, 2]."""
    seed: int | None = None
    """Seed of this request's random numbers, which do not depend on the batch. 0 … 2**63 - 1."""
    ignore_eos: bool = False
    """Continue after the model's own end tokens, as benches do."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer, of at most 256 characters each; they are not part of it."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end the answer in addition to the model's own; they are not part of the text."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Token ids and the values added to their logits, each in [-100, 100]."""
    logprobs: int | None = None
    """Report log probabilities of each token and of this many likeliest ones, 0 to 20; None reports none."""

    def __post_init__(self) -> None:
        """Check the type and the range of every value."""
        if self.max_tokens is not None:
            _check_int("max_tokens", self.max_tokens, 1, None)
        _check_number("temperature", self.temperature, 0.0, 100.0)
        _check_number("top_p", self.top_p, 0.0, 1.0, open_below=True)
        _check_int("top_k", self.top_k, 0, None)
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _check_number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _check_number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        if self.seed is not None:
            _check_int("seed", self.seed, 0, 2**63 - 1)
        if not isinstance(self.ignore_eos, bool):
            raise InvalidRequestError(
                "ignore_eos", f"{shown(self.ignore_eos)} is not a bool. Use True or False."
            )
        _check_items("stop", self.stop, str, _MAX_STOPS)
        if not all(0 < len(text) <= _MAX_STOP_CHARACTERS for text in self.stop):
            raise InvalidRequestError(
                "stop", f"a stop text is empty or too long. Give 1 to {_MAX_STOP_CHARACTERS} characters."
            )
        _check_items("stop_token_ids", self.stop_token_ids, int, _MAX_STOPS)
        if not isinstance(self.logit_bias, Mapping) or len(self.logit_bias) > MAX_BIASES:
            raise InvalidRequestError(
                "logit_bias", f"must map at most {MAX_BIASES} token ids to numbers. Give a smaller dict."
            )
        if self.logprobs is not None:
            _check_int("logprobs", self.logprobs, 0, _MAX_LOGPROBS)
        for token, bias in self.logit_bias.items():
            _check_int("logit_bias", token, 0, None)
            _check_number("logit_bias", bias, -100.0, 100.0)

    def check_vocabulary(self, vocabulary_size: int) -> None:
        """Check the token ids against the model's vocabulary.

        Raises:
            InvalidRequestError: an id is outside the vocabulary.
        """
        for name, ids in (("stop_token_ids", self.stop_token_ids), ("logit_bias", self.logit_bias)):
            for id in ids:
                _check_int(name, id, 0, vocabulary_size - 1)


def _check_int(name: str, value: Any, low: int, high: int | None) -> None:
    allowed = f"at least {low}" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequestError(name, f"{shown(value)} is not an integer. Use one {allowed}.")
    if value < low or (high is not None and value > high):
        raise InvalidRequestError(name, f"{shown(value)} is out of range. Use an integer {allowed}.")


def _check_number(name: str, value: Any, low: float, high: float, *, open_below: bool = False) -> None:
    allowed = f"{'above' if open_below else 'from'} {low:g} up to {high:g}"
    if not is_finite(value):
        raise InvalidRequestError(name, f"{shown(value)} is not a finite number. Use one {allowed}.")
    if value > high or value < low or (open_below and value == low):
        raise InvalidRequestError(name, f"{shown(value)} is out of range. Use a number {allowed}.")


def _check_items(name: str, value: Any, kind: type, most: int) -> None:
    if not isinstance(value, tuple) or len(value) > most or not all(type(item) is kind for item in value):
        raise InvalidRequestError(
            name, f"must be at most {most} values of type {kind.__name__}. Give a list of them."
        )
