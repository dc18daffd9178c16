"""From synthetic dialogues to batches of token rows, with what is to be learned in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..dialogues import Author
from ..markup import ARGUMENTS_OPEN, MARKUP_TOKENS, NAME_OPENS, SPECIAL_TOKENS, segments
from .recipes import Phase, RowKind

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FIRST_TEXT_TOKEN = len(SPECIAL_TOKENS) + len(MARKUP_TOKENS)
_NAME_WEIGHT, _FIRST_OF_VALUE_WEIGHT, _AFTER_WORD_WEIGHT = 3.0, 2.0, 2.0
WORD_HEAD, NEXT_WORD_HEAD = -1, 0
"""Heads of the last layer whose attention is supervised (:class:`Pointer`)."""


def load_tokenizer(path: Path) -> Tokenizer:
    """Read ``tokenizer.json`` as it is (some loaders replace its pre-tokenizer, which changes every id)."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))


class Pointer(NamedTuple):
    """Where one of the last layer's heads is to look from one position."""

    head: int
    position: int
    target: int


class Row(NamedTuple):
    """One row of training data, ``length + 1`` tokens long."""

    ids: NDArray[np.int64]
    weights: NDArray[np.float32]
    """Of each token's loss: zero where nothing is learned."""
    pointers: list[Pointer]
    """The :data:`WORD_HEAD` looks, where a call's tool is to be named, at that name in the list of tools, and
    where a word of a copied phrase is due, at that word where it was said. The :data:`NEXT_WORD_HEAD` looks,
    at the end of each copied word, at what comes after it where it was said: does that still belong to the
    phrase? The copy alone cannot tell; two places further on in what was said it can be seen."""


class Encoder:
    """Dialogues to token rows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """``tokenizer`` is the project's own, already trained."""
        self._tokenizer = tokenizer
        self._call, self._call_ends = map(tokenizer.token_to_id, ("<tool_call>", "</tool_call>"))
        self._size = tokenizer.get_vocab_size()
        self._opens_value, self._closes_value = np.zeros((2, self._size), dtype=bool)
        for token, index in tokenizer.get_vocab().items():
            self._opens_value[index] = token.endswith(('":Ġ"', '":Ġ'))
            self._closes_value[index] = token.startswith(('"', "}"))
        self._space = tokenizer.encode(" ", add_special_tokens=False).ids[0]
        self._name_opens = tokenizer.token_to_id(NAME_OPENS)
        self._arguments = tokenizer.token_to_id(ARGUMENTS_OPEN)

    def _weights(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        weights = np.ones(len(ids), dtype=np.float32)
        if ids[0] == self._call:
            after_value_start = np.flatnonzero(self._opens_value[ids[:-1]]) + 1
            weights[after_value_start] = _FIRST_OF_VALUE_WEIGHT
            calls, arguments = np.flatnonzero(ids == self._call), np.flatnonzero(ids == self._arguments)
            for start, end in zip(calls, arguments, strict=True):
                weights[start:end] = _NAME_WEIGHT
            weights[np.flatnonzero(ids == self._call_ends) + 1] = _NAME_WEIGHT  # one more call, or no more
        else:
            weights[0] = _NAME_WEIGHT  # to answer at all, rather than to call, is a choice of the same rank
        return weights

    def row(self, author: Author, kind: RowKind, phase: Phase, most_tools: int) -> Row:
        """One dialogue, cut or padded."""
        ids: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.float32]] = []
        pointers: list[Pointer] = []
        dialogue = author.dialogue(kind.turns, most_tools, phase.mix, calls_only=kind.calls_only)
        parts = segments(dialogue)
        called = iter(
            step.name
            for turn in dialogue.turns
            for steps in turn.messages[: 1 if kind.calls_only else None]
            for step in steps
        )
        names: dict[str, int] = {}
        start = 0
        for part in parts:
            encoded = np.asarray(
                self._tokenizer.encode(part.text, add_special_tokens=False).ids, dtype=np.int64
            )
            opened = np.flatnonzero(encoded == self._name_opens)
            learned = np.zeros(len(encoded), dtype=np.float32)
            if not ids:  # the first part lists the tools
                names = {tool.name: int(at) + 1 for tool, at in zip(dialogue.tools, opened, strict=True)}
            elif part.learned:
                learned = self._weights(encoded)
                said = np.concatenate(ids[1:])
                if encoded[0] == self._call:
                    pointers += [Pointer(WORD_HEAD, start + int(at), names[next(called)]) for at in opened]
                    copied = self._values(encoded)
                else:
                    copied = self._facts(encoded, part.facts)
                for at, words in copied:
                    if (source := _last_of(words, said)) is None:
                        continue
                    for offset in self._hard_to_continue(words):
                        pointers.append(
                            Pointer(WORD_HEAD, start + at - 1 + offset, len(ids[0]) + source + offset)
                        )
                    for end in self._ends_of_words(words):
                        after = source + end + 1
                        after += int(after + 1 < len(said) and said[after] == self._space)
                        pointers.append(Pointer(NEXT_WORD_HEAD, start + at + end, len(ids[0]) + after))
                        learned[at + end + 1] = _AFTER_WORD_WEIGHT
            ids.append(encoded)
            weights.append(learned)
            start += len(encoded)
        length = kind.length + 1
        row, weight = np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.float32)
        flat_ids, flat_weights = np.concatenate(ids)[:length], np.concatenate(weights)[:length]
        row[: len(flat_ids)], weight[: len(flat_weights)] = flat_ids, flat_weights
        return Row(row, weight, [pointer for pointer in pointers if pointer.position < kind.length])

    def _values(self, call: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The values of a call's arguments, each with its place in the call."""
        for before in np.flatnonzero(self._opens_value[call]):
            rest = call[before + 1 :]
            value = rest[: int(np.argmax(self._closes_value[rest]))]
            if len(value):
                yield int(before) + 1, value

    def _facts(
        self, answer: NDArray[np.int64], facts: Iterable[str]
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The facts in an answer, each with its place there, in their order where they are in order."""
        after = 0
        for fact in facts:
            words = np.asarray(self._tokenizer.encode(fact, add_special_tokens=False).ids, dtype=np.int64)
            if len(words) < 2:
                continue  # one digit or short word is found anywhere
            at = _first_of(words, answer, after)
            if at is None:
                at = _first_of(words, answer, 0)
            if at is not None and at > 0:
                after = at + len(words)
                yield at, words

    def _hard_to_continue(self, words: NDArray[np.int64]) -> list[int]:
        """Where the one token before does not say what comes next: at the start, and after each space."""
        return [0, *(np.flatnonzero(words[:-1] == self._space) + 1).tolist()]

    def _ends_of_words(self, words: NDArray[np.int64]) -> list[int]:
        """The last token before each space, and the last of all."""
        return [*(np.flatnonzero(words[1:] == self._space)).tolist(), len(words) - 1]

    def copy_row(self, rng: Random, length: int) -> Row:
        """Random tokens of which stretches come again: whatever a word is made of, it can be copied."""
        row = np.asarray(
            [rng.randrange(_FIRST_TEXT_TOKEN, self._size) for _ in range(length)], dtype=np.int64
        )
        weight = np.zeros(length, dtype=np.float32)
        start = 0
        while True:
            stretch, gap = rng.randint(4, 40), rng.randint(0, 60)
            again = start + stretch + gap
            if again + stretch > length:
                return Row(row, weight, [])
            row[again : again + stretch] = row[start : start + stretch]
            weight[again + 2 : again + stretch] = 1.0  # the first two tokens say what is being repeated
            start = again + stretch


def _first_of(words: NDArray[np.int64], text: NDArray[np.int64], after: int) -> int | None:
    """Where ``words`` first begin in ``text`` from the place ``after`` on."""
    for found in np.flatnonzero(text[after : len(text) - len(words) + 1] == words[0]) + after:
        if np.array_equal(text[found : found + len(words)], words):
            return int(found)
    return None


def _last_of(words: NDArray[np.int64], text: NDArray[np.int64]) -> int | None:
    """Where ``words`` last begin in ``text``."""
    if not len(words):
        return None
    for found in np.flatnonzero(text[: len(text) - len(words) + 1] == words[0])[::-1]:
        if np.array_equal(text[found : found + len(words)], words):
            return int(found)
    return None


class Batch(NamedTuple):
    """Rows of one length."""

    ids: torch.Tensor
    """``[rows, length + 1]``"""
    weights: torch.Tensor
    """``[rows, length + 1]``"""
    pointers: torch.Tensor
    """``[pointers, 4]``: row, and a :class:`Pointer`'s head, position and target."""


def batches(tokenizer: Tokenizer, phase: Phase, seed: int) -> Iterator[Batch]:
    """Endless batches of ``phase.tokens_per_step`` tokens, each in rows of one kind."""
    encoder = Encoder(tokenizer)
    rng = Random(seed)
    author = Author(rng, "train", blends=phase.blends, unknown_words=phase.unknown_words)
    while True:
        kind = rng.choices(phase.rows, [kind.share for kind in phase.rows])[0]
        rows: list[Row] = []
        for _ in range(phase.tokens_per_step // kind.length):
            if phase.copy_rows and rng.random() < phase.copy_rows:
                rows.append(encoder.copy_row(rng, kind.length + 1))
                continue
            most_tools = kind.most_tools[0] if len(kind.most_tools) == 1 else rng.choice(kind.most_tools)
            rows.append(encoder.row(author, kind, phase, most_tools))
        pointers = [(index, *pointer) for index, row in enumerate(rows) for pointer in row.pointers]
        yield Batch(
            torch.from_numpy(np.stack([row.ids for row in rows])),
            torch.from_numpy(np.stack([row.weights for row in rows])),
            torch.tensor(pointers, dtype=torch.int64).view(-1, 4),
        )
