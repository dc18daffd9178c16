"""An online index of a token sequence that finds where its last tokens occurred before (sd.npu §2.2).

Each of a few orders ``n`` has one chain per hash of ``n`` tokens: the positions at which such ``n`` tokens
end, the newest first. A search follows the chain of the highest order first and extends what it finds
backwards, so that it returns the longest matches among the newest candidates. A suffix automaton finds the
longest match of all, which drafted no better, in ten times the memory (decision 0035).
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_ORDERS: Final = (8, 4, 2, 1)
"""Each is twice the next, so that the hash of one is made of two of the next."""
SEPARATOR: Final = -1
"""Follows each text in an index of several texts. No continuation crosses it."""
MAX_MATCH: Final = 64
"""Tokens up to which matches are compared: a longer one predicts no better."""
_MAX_CANDIDATES: Final = 32
"""Positions of a chain that are compared in one search, so that repeated text costs no more than other."""
_FIRST_MULTIPLIER: Final = 0x9E3779B1
_SECOND_MULTIPLIER: Final = 0x85EBCA6B
_MASK: Final = 0xFFFFFFFF
_FEWEST_BITS: Final = 8
_MOST_BITS: Final = 20
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Match:
    """Where the last tokens of a text occurred before."""

    length: int
    """Tokens that agree, up to 64."""
    ends: tuple[int, ...]
    """The position behind each occurrence of that length, the newest first: where the continuation begins."""


class SuffixIndex:
    """The tokens of one text, or of several one after the other, and their chains. Not thread-safe.

    Takes 20 bytes a token, and 16 to 32 for each token of its capacity.
    """

    def __init__(self, capacity: int, tokens: Sequence[int] = ()) -> None:
        """Index ``tokens``, to which :meth:`append` and :meth:`extend` add; ``capacity`` is for them all.

        More tokens than that are indexed, too, in chains that are longer than they should be.
        """
        self._tokens = array("i")
        self._older = {order: array("i") for order in _ORDERS}
        bits = min(max(_FEWEST_BITS, (capacity - 1).bit_length()), _MOST_BITS)
        self._shift = 32 - bits
        self._newest = {order: array("i", [_NONE]) * (1 << bits) for order in _ORDERS}
        self.extend(tokens)

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self._tokens)

    @property
    def memory_bytes(self) -> int:
        """Bytes that tokens and chains take."""
        arrays = [self._tokens, *self._older.values(), *self._newest.values()]
        return sum(each.itemsize * len(each) for each in arrays)

    def tokens(self, begin: int, end: int) -> array[int]:
        """Return a copy of the tokens from ``begin`` up to ``end``."""
        return self._tokens[begin:end]

    def following(self, ends: Sequence[int]) -> list[int]:
        """Return the token at each position; :data:`SEPARATOR` for the end of the index."""
        tokens, length = self._tokens, len(self._tokens)
        return [tokens[end] if end < length else SEPARATOR for end in ends]

    def append(self, token: int) -> None:
        """Add one token."""
        tokens = self._tokens
        at = len(tokens)
        tokens.append(token)
        for order, code in zip(_ORDERS, _codes(tuple(tokens[max(0, at + 1 - _ORDERS[0]) :])), strict=True):
            if code is None:
                self._older[order].append(_NONE)
                continue
            newest, bucket = self._newest[order], code >> self._shift
            self._older[order].append(newest[bucket])
            newest[bucket] = at

    def extend(self, tokens: Sequence[int]) -> None:
        """Add many tokens, as :meth:`append` would one by one, but faster."""
        if len(tokens) <= _ORDERS[0]:
            for token in tokens:
                self.append(token)
            return
        begin = len(self._tokens)
        self._tokens.extend(tokens)
        first = max(0, begin - _ORDERS[0] + 1)  # a new token ends n-grams that begin before it
        codes = np.array(self._tokens[first:], np.int32).astype(np.uint32) * np.uint32(_FIRST_MULTIPLIER)
        for order in reversed(_ORDERS):
            if half := order // 2:
                codes = _joined(codes[:-half], codes[half:])
            place = max(begin, order - 1)  # of the first new n-gram's last token
            self._link(order, codes[place - first - order + 1 :] >> np.uint32(self._shift), place)

    def _link(self, order: int, buckets: NDArray[np.uint32], place: int) -> None:
        """Chain the n-grams that end at the positions from ``place`` on."""
        newest = np.frombuffer(self._newest[order], np.int32)  # shares the memory
        by_bucket = np.argsort(buckets, kind="stable")  # equal buckets stay in the order of their positions
        of = buckets[by_bucket]
        ends = (by_bucket + place).astype(np.int32)
        follows = np.append(False, of[1:] == of[:-1])
        older = np.empty(len(ends), np.int32)
        older[by_bucket] = np.where(follows, np.roll(ends, 1), newest[of])
        newest[of] = ends  # of equal indices the last value is kept
        missing = place - len(self._older[order])  # the first tokens of the text end no n-gram
        self._older[order].extend([_NONE] * missing)
        self._older[order].frombytes(older.tobytes())

    def longest_match(self, text: Sequence[int]) -> Match | None:
        """Find the last tokens of ``text`` in the index; None if not even the last one occurs.

        An occurrence at the very end of the index does not count: it has no continuation, and ``text`` may be
        that end itself. At most 32 occurrences are compared.
        """
        limit = len(self._tokens)
        last = array("i", text[-MAX_MATCH:])
        for order, code in zip(_ORDERS, _codes(tuple(last[-_ORDERS[0] :])), strict=True):
            if code is None:
                continue
            longest, ends = 0, []
            older = self._older[order]
            at, compared = self._newest[order][code >> self._shift], 0
            while at != _NONE and compared < _MAX_CANDIDATES:
                if at + 1 < limit:
                    compared += 1
                    length = self._common_suffix(at, last)
                    if length > longest:
                        longest, ends = length, [at + 1]
                    elif length == longest:
                        ends.append(at + 1)
                at = older[at]
            if longest >= order:
                return Match(longest, tuple(ends))
        return None

    def _common_suffix(self, at: int, last: array[int]) -> int:
        """Return how many tokens up to position ``at`` equal the last of ``last``."""
        tokens = self._tokens
        most = min(len(last), at + 1)
        if tokens[at + 1 - most : at + 1] == last[len(last) - most :]:
            return most
        length = 0
        while tokens[at - length] == last[-1 - length]:
            length += 1
        return length


@functools.lru_cache(maxsize=8)  # a token is appended to one index and then searched for in several
def _codes(last: tuple[int, ...]) -> tuple[int | None, ...]:
    """Hash the last 8, 4, 2 and 1 of up to 8 tokens; None where there are fewer."""
    codes: list[int | None] = []
    level = [(token * _FIRST_MULTIPLIER) & _MASK for token in last]
    for order in reversed(_ORDERS):
        if half := order // 2:
            level = [
                ((((left * _FIRST_MULTIPLIER) & _MASK) ^ right) * _SECOND_MULTIPLIER) & _MASK
                for left, right in zip(level, level[half:], strict=False)
            ]
        codes.append(level[-1] if level else None)
    return tuple(reversed(codes))


def _joined(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The hashes of :func:`_codes`, of many tokens at once."""
    return ((left * np.uint32(_FIRST_MULTIPLIER)) ^ right) * np.uint32(_SECOND_MULTIPLIER)
