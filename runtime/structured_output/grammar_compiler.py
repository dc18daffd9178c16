"""Compiles grammars for one vocabulary, and keeps the last ones."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import AgentRTError, InvalidRequestError, ModelFormatError

from .plain_reason import plain_reason
from .schema_limits import unbounded_keyword

_MAX_CHARACTERS: Final = 1 << 18
"""The longest grammar in characters."""
_MAX_CACHED: Final = 64
"""Compiled grammars kept for later requests."""
_MAX_CACHED_BYTES: Final = 128 * 2**20
"""Their estimated bytes."""
_MAX_LEXER_STATES: Final = 50_000
"""States that the answers of one grammar may lead to: 400 bytes each."""
_SMALL_BYTES: Final = 64 * 2**10
_BYTES_OF_CHARACTER: Final = 32
_MULTIPLE_BYTES: Final = 6 * 2**20
_PATTERN_BYTES: Final = 400 * _MAX_LEXER_STATES
_EXPLAINING_S: Final = 1.0
"""CPU time for finding the part of a schema that cannot be compiled."""

_POSITION: Final = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")
"""Where the error is in the grammar, of which the request knows nothing."""
_SOURCE: Final = re.compile(r"\n +\d+ \| .*", re.DOTALL)
"""The lines of the grammar around the error."""


_NO_VOCABULARY: Final = "the model's vocabulary cannot be read. Convert the tokenizer again."


class NamedSchema(NamedTuple):
    """One JSON schema of a request."""

    field: str
    """The field of the request that has it."""
    name: str
    """What it is the schema of, for error messages."""
    schema: Mapping[str, Any]
    """As it stands in the grammar."""


class GrammarCompiler:
    """Compiles grammars to matchers, which callers copy for each answer. Thread-safe.

    A grammar is compiled on the thread that requests it, without Python's global lock. llguidance limits its
    work by counts, to which :mod:`.schema_limits` adds those that it lacks: a grammar is refused on every
    machine or on none, and no work has to be stopped. Requests with the same grammar share a compilation, and
    the states of its lexer.
    """

    def __init__(
        self, token_bytes: Sequence[bytes], end_token: int, *, max_cached_bytes: int = _MAX_CACHED_BYTES
    ) -> None:
        """``token_bytes`` holds the text of each token, empty for special tokens.

        Raises:
            ModelFormatError: a token is too long.
        """
        self._vocabulary = _Vocabulary(token_bytes, end_token)
        self._reading = threading.Lock()
        self._tokenizer: LLTokenizer | None = None
        self._is_prepared = False
        with _panics_as(ModelFormatError(_NO_VOCABULARY)):
            LLTokenizer(TokenizerWrapper(_Vocabulary([max(token_bytes, key=len)], 0)), slices=[])
        self._limits = LLParserLimits(max_lexer_states=_MAX_LEXER_STATES)
        self._max_cached_bytes = max_cached_bytes
        self._lock = threading.Lock()
        self._compiled: OrderedDict[str, Future[LLMatcher]] = OrderedDict()

    def prepare(self) -> None:
        """Have masks of texts be quick from the next request on: a quarter of a second for 150,000 tokens.

        As while the vocabulary is read, for nearly as long, Python's global lock is held meanwhile.

        Raises:
            ModelFormatError: the vocabulary cannot be read.
        """
        tokenizer = self._read_vocabulary()
        with self._reading:
            if self._is_prepared:
                return
            self._tokenizer = tokenizer.with_slices(LLTokenizer.general_slices())
            self._is_prepared = True
        with self._lock:
            self._compiled.clear()  # for the tokenizer without slices

    def _read_vocabulary(self) -> LLTokenizer:
        with self._reading, _panics_as(ModelFormatError(_NO_VOCABULARY)):
            if self._tokenizer is None:
                self._tokenizer = LLTokenizer(TokenizerWrapper(self._vocabulary), slices=[])
            return self._tokenizer

    def compile(
        self,
        grammar: str,
        field: str,
        schemas: Sequence[NamedSchema] = (),
        check: Callable[[], None] = lambda: None,
    ) -> LLMatcher:
        """Compile ``grammar``, which comes from the request's ``field``. Copy the result; never advance it.

        ``schemas`` are the JSON schemas in it: an error names the one that cannot be compiled. ``check`` is
        called between steps; what it raises ends the work.

        Raises:
            InvalidRequestError: the grammar is invalid, too large, or too much work.
            ModelFormatError: the vocabulary cannot be read.
        """
        if len(grammar) > _MAX_CHARACTERS:
            raise InvalidRequestError(
                field, f"its schemas have more than {_MAX_CHARACTERS} characters. Use smaller schemas."
            )
        for schema in schemas:
            unbounded = unbounded_keyword(schema.schema)
            if unbounded is not None:
                raise _unsupported(schema.field, schema.name, unbounded)
        with _panics_as(InvalidRequestError(field, "its schemas cannot be compiled. Use simpler schemas.")):
            compiled = self._compile_once(grammar)
        reason = _reason(compiled)
        if reason is None:
            return compiled
        until = time.thread_time() + _EXPLAINING_S

        def reason_of(part: str) -> str | None:
            check()
            return _reason(self._compile(part)) if time.thread_time() < until else None

        with _panics_as(_unsupported(field, "its schema", reason)):
            found = _unsupported_part(schemas, reason_of)
        raise found or _unsupported(field, "its schema", reason)

    def _compile_once(self, grammar: str) -> LLMatcher:
        with self._lock:
            known = self._compiled.get(grammar)
            if known is not None:
                self._compiled.move_to_end(grammar)
            else:
                compiling = self._compiled[grammar] = Future()
                self._drop_oldest()
        if known is not None:
            compiled = known.result()
            return compiled if _is_usable(compiled) else self._compile_again(grammar, known)
        try:
            compiled = self._compile(grammar)
        except BaseException as error:
            compiling.set_exception(error)
            with self._lock:
                self._compiled.pop(grammar, None)
            raise
        compiling.set_result(compiled)
        return compiled

    def _compile_again(self, grammar: str, used_up: Future[LLMatcher]) -> LLMatcher:
        """Compile a grammar whose lexer has no states left."""
        with self._lock:
            if self._compiled.get(grammar) is used_up:
                del self._compiled[grammar]
        return self._compile_once(grammar)

    def _drop_oldest(self) -> None:
        """Keep the last grammars within the limits; the last one in any case. The lock is held."""
        size = sum(map(_estimated_bytes, self._compiled))
        while len(self._compiled) > 1 and (
            len(self._compiled) > _MAX_CACHED or size > self._max_cached_bytes
        ):
            size -= _estimated_bytes(self._compiled.popitem(last=False)[0])

    def _compile(self, grammar: str) -> LLMatcher:
        tokenizer = self._read_vocabulary()
        with native_calls:
            # Its warnings, which go to standard error, are in the error of the request.
            return LLMatcher(tokenizer, grammar, log_level=0, limits=self._limits)


@contextmanager
def _panics_as(error: AgentRTError) -> Iterator[None]:
    """Raise ``error`` for a panic of llguidance, whose class is no :class:`Exception` and not importable."""
    try:
        yield
    except BaseException as caught:
        if type(caught).__name__ != "PanicException":
            raise
        raise error from caught


def _is_usable(compiled: LLMatcher) -> bool:
    """Whether answers can begin: the lexer that all copies share may have as many states as are allowed."""
    copy = compiled.deep_copy()
    copy.compute_bitmask()
    return "too many states" not in copy.get_error()


def _estimated_bytes(grammar: str) -> int:
    """Return about how many bytes a compiled grammar may take, of which llguidance tells nothing.

    Measured by hand on 2026-11-22. Patterns are what gets new states with each answer.
    """
    states = _PATTERN_BYTES if '"pattern' in grammar else _MULTIPLE_BYTES if '"multipleOf"' in grammar else 0
    return _SMALL_BYTES + _BYTES_OF_CHARACTER * len(grammar) + states


def _unsupported(field: str, name: str, reason: str) -> InvalidRequestError:
    return InvalidRequestError(
        field, f"{name} cannot be followed: {reason}. Correct or leave out this part of the JSON schema."
    )


def _unsupported_part(
    schemas: Sequence[NamedSchema], reason_of: Callable[[str], str | None]
) -> InvalidRequestError | None:
    """Return the error of the first schema that cannot be compiled, or of the property of it that cannot.

    ``reason_of`` returns why a grammar cannot be compiled, or None if it can.
    """

    def reason_for(schema: Mapping[str, Any]) -> str | None:
        return reason_of(f"start: %json {json.dumps(schema)}")

    for field, name, schema in schemas:
        reason = reason_for(schema)
        if reason is None:
            continue
        optional = {**schema, "properties": {}, "required": []}
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and reason_for(optional) is None:
            for key, value in properties.items():
                found = reason_for({**optional, "properties": {key: value}})
                if found is not None:
                    return _unsupported(field, f"property {key!r} of {name}", found)
        return _unsupported(field, name, reason)
    return None


def _reason(compiled: LLMatcher) -> str | None:
    """Return why a grammar could not be compiled, in one line; None if it could."""
    if not compiled.is_error():
        return None
    text = _SOURCE.sub("", _POSITION.sub("", compiled.get_error()))
    lines = (line.strip() for line in text.splitlines())
    return plain_reason(" ".join(line for line in lines if line.strip("^ ")).rstrip("."))


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
