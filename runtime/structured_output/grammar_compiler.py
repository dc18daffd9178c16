"""Compiles grammars for one vocabulary: off the caller's thread, within a time, and each one once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from agentrt.errors import InvalidRequestError, OverloadedError

_KEPT_GRAMMARS: Final = 64
_MAX_CHARACTERS: Final = 1 << 18
_MAX_COMPILING: Final = 4


class GrammarCompiler:
    """Turns grammars into matchers, which are copied for each answer. Thread-safe.

    Compiling can take long for a hostile grammar and cannot be stopped, so it happens on a thread of its
    own that nobody waits for longer than ``time_limit_s``. Requests that ask for the same grammar share
    one compilation, also one that is too slow. Few run at once; others wait within their time for a place.
    """

    def __init__(self, token_bytes: Sequence[bytes], end_token: int, *, time_limit_s: float = 5.0) -> None:
        """``token_bytes`` is the text of each token, empty for special ones."""
        self._tokenizer = LLTokenizer(TokenizerWrapper(_Vocabulary(token_bytes, end_token)))
        self._time_limit_s = time_limit_s
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_MAX_COMPILING)
        self._compiled: OrderedDict[str, Future[LLMatcher]] = OrderedDict()

    def compile(self, grammar: str, field: str) -> LLMatcher:
        """Compile ``grammar``, which the request's ``field`` asked for. Do not advance what is returned.

        Raises:
            InvalidRequestError: it is no grammar, or too large, or too slow to compile.
            OverloadedError: others were compiled all the time.
        """
        if len(grammar) > _MAX_CHARACTERS:
            raise InvalidRequestError(
                field, f"its schemas have more than {_MAX_CHARACTERS} characters. Use smaller schemas."
            )
        until = time.monotonic() + self._time_limit_s
        try:
            compiled = self._future(grammar).result(max(0.0, until - time.monotonic()))
        except FutureTimeoutError:
            raise InvalidRequestError(
                field,
                f"its schemas take more than {self._time_limit_s:g} s to compile. Use simpler schemas: fewer "
                "alternatives, shorter bounds, no nested repetition in patterns.",
            ) from None
        if compiled.is_error():
            raise InvalidRequestError(
                field,
                f"cannot be followed: {compiled.get_error().splitlines()[0]}. "
                "Use a plain JSON schema, of type object for a tool's parameters.",
            )
        return compiled

    def _future(self, grammar: str) -> Future[LLMatcher]:
        """The compilation of ``grammar``, started as soon as there is a place for it."""
        with self._lock:
            known = self._known(grammar)
        if known is not None:
            return known
        if not self._places.acquire(timeout=self._time_limit_s):
            raise OverloadedError(
                f"{_MAX_COMPILING} other schemas were being compiled for {self._time_limit_s:g} s. "
                "Ask again in a moment."
            )
        with self._lock:
            known = self._known(grammar)  # somebody else may have started it meanwhile
            if known is not None:
                self._places.release()
                return known
            while len(self._compiled) >= _KEPT_GRAMMARS:
                self._compiled.pop(next(key for key, kept in self._compiled.items() if kept.done()))
            future = self._compiled[grammar] = Future()
        # A daemon: one that never ends must not keep the process from ending.
        threading.Thread(
            target=self._compile, args=(grammar, future), name="agentrt-grammar", daemon=True
        ).start()
        return future

    def _known(self, grammar: str) -> Future[LLMatcher] | None:
        known = self._compiled.get(grammar)
        if known is not None:
            self._compiled.move_to_end(grammar)
        return known

    def _compile(self, grammar: str, future: Future[LLMatcher]) -> None:
        try:
            future.set_result(LLMatcher(self._tokenizer, grammar))
        except BaseException as error:  # noqa: BLE001 - it belongs to those who wait
            future.set_exception(error)
        finally:
            self._places.release()


class _Vocabulary:
    """A model's vocabulary as llguidance wants to see it."""

    def __init__(self, token_bytes: Sequence[bytes], end_token: int) -> None:
        self.tokens = list(token_bytes)
        self.eos_token_id = end_token
        self.bos_token_id = None
        self.special_token_ids = [index for index, text in enumerate(token_bytes) if not text]

    def __call__(self, text: str) -> list[int]:
        """Spell ``text`` in tokens; only forced tokens would need it, and the grammars force none."""
        raise AssertionError(f"nothing should have to tokenize {text!r}")
