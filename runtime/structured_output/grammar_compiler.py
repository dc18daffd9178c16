"""Compiles grammars for one vocabulary, with a time limit and a cache."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Final

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import AgentRTError, InvalidRequestError, ModelFormatError, OverloadedError

from .named_schema import NamedSchema, find_unsupported_part

_MAX_CACHED: Final = 64
"""Compiled grammars kept for later requests."""
_MAX_CHARACTERS: Final = 1 << 18
"""The longest grammar in characters."""
_MAX_COMPILING: Final = 4
"""Compilations that run at once."""

_POSITION: Final = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")
"""Where the error is in the grammar, of which the request knows nothing."""
_SOURCE: Final = re.compile(r"\n +\d+ \| .*", re.DOTALL)
"""The lines of the grammar around the error."""


_NO_VOCABULARY: Final = "the model's vocabulary cannot be read. Convert the tokenizer again."


class GrammarCompiler:
    """Compiles grammars to matchers, which callers copy for each answer. Thread-safe.

    Compiling a hostile grammar can take long and cannot be stopped. It therefore runs on a thread of its own,
    and callers wait for it at most ``time_limit_s``. Requests with the same grammar share one compilation,
    also one that is too slow. Only a few compilations run at once; the wait for a free place is limited, too.
    """

    def __init__(self, token_bytes: Sequence[bytes], end_token: int, *, time_limit_s: float = 5.0) -> None:
        """``token_bytes`` holds the text of each token, empty for special tokens. Time limit in seconds."""
        with _panics_as(ModelFormatError(_NO_VOCABULARY)):
            self._tokenizer = LLTokenizer(TokenizerWrapper(_Vocabulary(token_bytes, end_token)))
        self._time_limit_s = time_limit_s
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_MAX_COMPILING)
        self._compiled: OrderedDict[str, Future[LLMatcher]] = OrderedDict()

    def compile(self, grammar: str, field: str, schemas: Sequence[NamedSchema] = ()) -> LLMatcher:
        """Compile ``grammar``, which comes from the request's ``field``. Copy the result; never advance it.

        ``schemas`` are the JSON schemas in it: an error names the one that cannot be compiled.

        Raises:
            InvalidRequestError: the grammar is invalid, too large, or too slow to compile.
            OverloadedError: other compilations took all places for the whole time limit.
        """
        if len(grammar) > _MAX_CHARACTERS:
            raise InvalidRequestError(
                field, f"its schemas have more than {_MAX_CHARACTERS} characters. Use smaller schemas."
            )
        compiled = self._compile_in_time(grammar, field)
        reason = _reason(compiled)
        if reason is None:
            return compiled
        part = find_unsupported_part(schemas, lambda each: _reason(self._compile_in_time(each, field)))
        field, name, reason = part or (field, "its schema", reason)
        raise InvalidRequestError(
            field, f"{name} cannot be followed: {reason}. Correct or leave out this part of the JSON schema."
        )

    def _compile_in_time(self, grammar: str, field: str) -> LLMatcher:
        deadline = time.monotonic() + self._time_limit_s
        too_hard = InvalidRequestError(field, "its schemas cannot be compiled. Use simpler schemas.")
        try:
            with _panics_as(too_hard):
                return self._future(grammar).result(max(0.0, deadline - time.monotonic()))
        except FutureTimeoutError:
            raise InvalidRequestError(
                field,
                f"its schemas take more than {self._time_limit_s:g} s to compile. Use simpler schemas: fewer "
                "alternatives, shorter bounds, no nested repetition in patterns.",
            ) from None

    def _future(self, grammar: str) -> Future[LLMatcher]:
        """Return the compilation of ``grammar``; start it when there is a free place unless it is known."""
        with self._lock:
            known = self._known(grammar)
        if known is not None:
            return known
        if not self._places.acquire(timeout=self._time_limit_s):
            raise OverloadedError(
                f"{_MAX_COMPILING} other schemas were being compiled for {self._time_limit_s:g} s. "
                "Retry in a moment."
            )
        with self._lock:
            known = self._known(grammar)  # another thread may have started it meanwhile
            if known is not None:
                self._places.release()
                return known
            while len(self._compiled) >= _MAX_CACHED:
                self._compiled.pop(next(key for key, kept in self._compiled.items() if kept.done()))
            future = self._compiled[grammar] = Future()
        # A daemon thread: a compilation that never ends must not keep the process alive.
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
            with native_calls:
                future.set_result(LLMatcher(self._tokenizer, grammar))
        except BaseException as error:  # noqa: BLE001 - raised in the waiting callers
            future.set_exception(error)
        finally:
            self._places.release()


@contextmanager
def _panics_as(error: AgentRTError) -> Iterator[None]:
    """Raise ``error`` for a panic of llguidance, whose class is no :class:`Exception` and not importable."""
    try:
        yield
    except BaseException as caught:
        if type(caught).__name__ != "PanicException":
            raise
        raise error from caught


def _reason(compiled: LLMatcher) -> str | None:
    """Return why a grammar could not be compiled, in one line; None if it could."""
    if not compiled.is_error():
        return None
    text = _SOURCE.sub("", _POSITION.sub("", compiled.get_error()))
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line for line in lines if line.strip("^ ")).rstrip(".")


class _Vocabulary:
    """A model's vocabulary in the shape that llguidance takes."""

    def __init__(self, token_bytes: Sequence[bytes], end_token: int) -> None:
        self.tokens = list(token_bytes)
        self.eos_token_id = end_token
        self.bos_token_id = None
        self.special_token_ids = [index for index, text in enumerate(token_bytes) if not text]

    def __call__(self, text: str) -> list[int]:
        """Tokenize ``text``. Only forced tokens need it, and these grammars force none."""
        raise AssertionError(f"llguidance tokenizes {text!r}, although no grammar forces tokens")
