"""What a tokenizer does with its vocabulary: asked of it token by token, or stored by a conversion."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, Self

import numpy as np
import openvino_genai

from agentrt.calls import tool_call_formats
from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import ModelFormatError

from .json_files import read_json
from .openvino_core import openvino_message

FACTS: Final = "openvino_vocabulary.json"


@dataclass(frozen=True, slots=True)
class VocabularyFacts:
    """Facts that take tenths of a second to find out for a vocabulary of 150,000 tokens."""

    size: int
    """Tokens of the model, of which the last ones may be padding."""
    markup: tuple[str, ...]
    """Special tokens that tool parsers must see; the others are hidden."""
    hidden: tuple[int, ...]
    """Tokens that are not shown."""
    untold: tuple[int, ...]
    """Those of them that the detokenizer never tells, with a GGUF file all: OpenVINO GenAI has control tokens
    told only by graphs that openvino_tokenizers has made from another form."""
    concatenates: bool
    """Whether the text of tokens is that of their bytes, one after the other."""
    longest_token: int
    """Its bytes."""
    word_breaks: str
    """Characters in front of which a text may be cut, between letters."""
    text_prefix: tuple[int, ...]
    """The tokens that precede those of a text, and not what follows them: an answer does."""
    fingerprint: str
    """Equal where each token id stands for the same text."""

    @classmethod
    def find(cls, tokenizer: openvino_genai.Tokenizer, size: int, decoded: Sequence[bytes]) -> Self:
        """Ask ``tokenizer``; ``decoded`` is the text of each token.

        ``size`` is that of the model, which is often padded beyond that of the tokenizer.
        """
        ids: dict[bytes, int] = tokenizer.get_vocab()
        markup = _markup()
        kept = {ids.get(text.encode()) for text in markup}
        whole = max(size, max(ids.values()) + 1, len(decoded))
        shown = tokenizer.decode([[id] for id in range(whole)], skip_special_tokens=True)
        hidden = frozenset(id for id in range(whole) if not shown[id] and id not in kept)
        rows = [[id] for id in sorted(hidden)]
        told = tokenizer.decode(rows, skip_special_tokens=False) if rows else []
        seen = [id for id in range(whole) if id not in hidden]
        # The vocabulary is byte-level if and only if the concatenated bytes give the detokenizer's text.
        written = b"".join(decoded[id] for id in seen if id < len(decoded)).decode("utf-8", "replace")
        return cls(
            size=size,
            markup=markup,
            hidden=tuple(sorted(hidden)),
            untold=tuple(id for id, text in zip(sorted(hidden), told, strict=True) if not text),
            concatenates=written == tokenizer.decode(seen, skip_special_tokens=False),
            longest_token=max(map(len, ids)),
            word_breaks=_find_word_breaks(tokenizer, ids),
            text_prefix=_find_text_prefix(tokenizer),
            fingerprint=_fingerprint(ids),
        )

    @classmethod
    def stored(cls, folder: Path, size: int) -> Self | None:
        """Return the facts that were stored in ``folder``; None if there are none of this model and markup.

        Raises:
            ModelFormatError: they cannot be read.
        """
        if not (folder / FACTS).is_file():
            return None
        stated = read_json(folder / FACTS)
        known = {each.name for each in fields(cls)}
        if stated.keys() != known or stated["size"] != size or stated["markup"] != list(_markup()):
            return None
        for name in ("markup", "hidden", "untold", "text_prefix"):
            stated[name] = tuple(stated[name])
        return cls(**stated)

    def store(self, folder: Path) -> None:
        """Write the facts to ``folder``."""
        (folder / FACTS).write_text(json.dumps(asdict(self)), encoding="utf-8")


def encode_texts(tokenizer: openvino_genai.Tokenizer, texts: list[str]) -> list[int]:
    """Return the tokens of ``texts``, one after the other.

    Raises:
        ModelFormatError: the tokenizer is damaged.
    """
    try:
        with native_calls:
            # The template writes all special tokens, also those at the start of a text.
            encoded = tokenizer.encode(texts, add_special_tokens=False)
    except RuntimeError as error:
        raise ModelFormatError(
            f"the model's tokenizer is damaged: it cannot encode a text ({openvino_message(error)}) "
            "Convert it again with convert_tokenizer."
        ) from error
    ids, used = np.asarray(encoded.input_ids.data), np.asarray(encoded.attention_mask.data)
    tokens: list[int] = ids[used == 1].tolist()  # all rows, without the padding of the shorter ones
    return tokens


def _markup() -> tuple[str, ...]:
    return tuple(sorted({text for format in tool_call_formats() for text in format.markup}))


def _find_word_breaks(tokenizer: openvino_genai.Tokenizer, ids: Mapping[bytes, int]) -> str:
    """Return the characters in front of which a text may be cut, between letters.

    If no token has a letter before such a character, none reaches across. Nor may the tokenizer add anything
    to the beginning of a text.
    """
    breaks = ""
    for character in " \n":
        across = re.compile(rb"[A-Za-z]" + character.encode())
        whole, *parts = (encode_texts(tokenizer, [text]) for text in (f"a{character}b", "a", f"{character}b"))
        if whole == parts[0] + parts[1] and not any(map(across.search, ids)):
            breaks += character
    return breaks


def _find_text_prefix(tokenizer: openvino_genai.Tokenizer) -> tuple[int, ...]:
    bare = encode_texts(tokenizer, ["a"])
    encoded = tokenizer.encode(["a"], add_special_tokens=True)
    whole: list[int] = np.asarray(encoded.input_ids.data)[0].tolist()
    starts = range(len(whole) - len(bare) + 1)
    return next((tuple(whole[:i]) for i in starts if whole[i : i + len(bare)] == bare), ())


def _fingerprint(ids: Mapping[bytes, int]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    for token, id in sorted(ids.items(), key=lambda item: item[1]):
        digest.update(b"%d %d %b" % (id, len(token), token))
    return digest.hexdigest()
