"""Builds the OpenVINO tokenizer and detokenizer of a GGUF file's vocabulary.

The detokenizer's vocabulary holds the bytes of each token, so that the text of an answer is the concatenation
of its tokens' bytes: grammars need them to know what a token writes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import openvino as ov
from openvino_tokenizers.constants import UTF8ReplaceMode
from openvino_tokenizers.tokenizer_pipeline import (
    BPETokenizationStep,
    CombineSegmentsStep,
    FuseStep,
    NormalizeUnicode,
    PaddingStep,
    RegexNormalizationStep,
    RegexSplitStep,
    SpecialTokensSplit,
    TokenizerPipeline,
    UTF8ValidateStep,
    VocabDecoderStep,
)
from openvino_tokenizers.tokenizer_pipeline import Sequence as SequenceInput
from openvino_tokenizers.utils import change_inputs_type, change_outputs_type

from agentrt.errors import ModelFormatError

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_GPT2: Final = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",)
_SINGLE_DIGITS: Final = (r"\p{N}", *_GPT2)
_LLAMA3: Final = (rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}",)
_QWEN2: Final = (rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_REST}",)
_LOWER: Final = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_UPPER: Final = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
_SLASH_REST: Final = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN: Final = (rf"{_LOWER}|{_UPPER}|\p{{N}}|{_SLASH_REST}",)
_GPT_4O: Final = (rf"{_LOWER}{_CONTRACTIONS}?|{_UPPER}{_CONTRACTIONS}?|\p{{N}}{{1,3}}|{_SLASH_REST}",)

PRE_TOKENIZERS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("default", "gpt-2", "phi-2", "olmo", "mpt", "exaone", "exaone4", "roberta-bpe"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _SINGLE_DIGITS),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx", "falcon3", "pixtral"), _LLAMA3),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez"), _QWEN2),
    "tekken": _TEKKEN,
    **dict.fromkeys(("gpt-4o", "llama4"), _GPT_4O),
}
"""Each expression splits the pieces of the one before; matches and what is between them are pieces."""

NORMALISED: Final = frozenset({"qwen2", "deepseek-r1-qwen"})
"""Pre-tokenizers of models that were trained on text in Unicode's form NFC."""


_CONTROL: Final = 3
_USER_DEFINED: Final = 4
_BYTE: Final = 6
_BYTE_TOKEN: Final = re.compile(r"<0x[0-9A-F]{2}>")
_SPACE: Final = "▁"
"""How SentencePiece spells a space."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a GGUF file, and those with a role."""

    metadata: Mapping[str, Any]
    tokens: Sequence[str]
    types: Sequence[int]
    """llama.cpp's type of each token."""

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> Vocabulary:
        """Take the vocabulary from a file's metadata.

        Raises:
            ModelFormatError: the file has none, or contradicts itself.
        """
        tokens = metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
            raise ModelFormatError(
                "it has no vocabulary (tokenizer.ggml.tokens). Download a complete conversion of the model."
            )
        types = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
        if not isinstance(types, list) or len(types) != len(tokens):
            raise ModelFormatError(
                f"its vocabulary has {len(tokens)} tokens, but not as many types. Download the file again."
            )
        return cls(metadata, tokens, types)

    def role(self, name: str) -> int | None:
        """Return the token with a role, such as ``eos`` or ``bos``; None if the file names none.

        Raises:
            ModelFormatError: there is no such token in the vocabulary.
        """
        token = self.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if token is None:
            return None
        if not isinstance(token, int) or not 0 <= token < len(self.tokens):
            raise ModelFormatError(
                f"its {name} token {token} is not in the vocabulary of {len(self.tokens)} tokens. Download "
                "the file again."
            )
        return token

    def special(self) -> list[int]:
        """Tokens that are found in text as a whole, before it is split."""
        return [
            id for id, type in enumerate(self.types) if type in (_CONTROL, _USER_DEFINED) and self.tokens[id]
        ]


def build_tokenizer(vocabulary: Vocabulary) -> tuple[ov.Model, ov.Model]:
    """Return the tokenizer and the detokenizer, with the chat template and the tokens' roles.

    Raises:
        ModelFormatError: the kind of tokenizer is unknown, or its merges are damaged.
    """
    metadata = vocabulary.metadata
    kind = metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        special = set(vocabulary.special())
        texts = [
            token.encode() if id in special else _unspelled(token)
            for id, token in enumerate(vocabulary.tokens)
        ]
        steps = _byte_level_steps(vocabulary, texts)
    elif kind == "llama":
        texts = [
            bytes.fromhex(token[3:5])
            if type == _BYTE and _BYTE_TOKEN.fullmatch(token)
            else token.replace(_SPACE, " ").encode()
            for token, type in zip(vocabulary.tokens, vocabulary.types, strict=True)
        ]
        steps = _sentencepiece_steps(vocabulary)
    else:
        raise ModelFormatError(
            f"its tokenizer is of the kind {kind!r}, which is unknown here; known are gpt2 (byte-level BPE) "
            "and llama (SentencePiece BPE). Export the model by optimum-cli export openvino."
        )
    pipeline = TokenizerPipeline(vocab=list(texts))
    pipeline.add_steps(
        [
            SpecialTokensSplit.from_string_iter(vocabulary.tokens[id] for id in vocabulary.special()),
            *steps,
            CombineSegmentsStep([SequenceInput()]),  # chat templates write special tokens
            PaddingStep(_token_id=vocabulary.role("padding") or 0, pad_right=False),
            VocabDecoderStep(
                list(texts), [id for id, type in enumerate(vocabulary.types) if type == _CONTROL]
            ),
            FuseStep(),
            UTF8ValidateStep(UTF8ReplaceMode.REPLACE),
        ]
    )
    tokenizer = change_outputs_type(pipeline.get_tokenizer_ov_subgraph(), ov.Type.i64)
    detokenizer = change_inputs_type(pipeline.get_detokenizer_ov_subgraph(), ov.Type.i64)
    looked_up = {"chat_template": metadata.get("tokenizer.chat_template")}  # by OpenVINO GenAI
    for role, name in (("bos", "bos"), ("eos", "eos"), ("padding", "pad")):
        looked_up[f"{name}_token_id"] = vocabulary.role(role)
    for model in (tokenizer, detokenizer):
        for name, value in looked_up.items():
            if value is not None:
                model.set_rt_info(value, name)
    return tokenizer, detokenizer


def _unspelled(token: str) -> bytes:
    """The bytes of a token of a byte-level vocabulary, which spells bytes as printable characters."""
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:  # a token that is no byte-level text, such as padding of the vocabulary
        return token.encode()


def _byte_spelling() -> dict[str, int]:
    """GPT-2's spelling: printable bytes stand for themselves, the others for characters from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = sorted(set(range(256)) - set(printable))
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}


_BYTES: Final = _byte_spelling()


def _byte_level_steps(vocabulary: Vocabulary, texts: Sequence[bytes]) -> list[Any]:
    pre = str(vocabulary.metadata.get("tokenizer.ggml.pre", "default"))
    expressions = PRE_TOKENIZERS.get(pre)
    if expressions is None:
        _log.warning(
            "The tokenizer splits text as %r, which is unknown here; GPT-2's way is used instead, and some "
            "words may be tokenized differently than in training.",
            pre,
        )
        expressions = PRE_TOKENIZERS["default"]
    merges = []
    for merge in vocabulary.metadata.get("tokenizer.ggml.merges") or []:
        left, _, right = str(merge).partition(" ")
        merges.append((_unspelled(left), _unspelled(right)))
    if not merges:
        raise ModelFormatError(
            "its tokenizer has no merges (tokenizer.ggml.merges). Download a complete conversion of the "
            "model."
        )
    return [
        *([NormalizeUnicode("NFC")] if pre in NORMALISED else []),
        *(RegexSplitStep(expression, behaviour="isolate", mergeable=False) for expression in expressions),
        BPETokenizationStep(
            vocab=list(texts),
            merges=merges,
            added_tokens={texts[id]: id for id in vocabulary.special()},
        ),
    ]


def _sentencepiece_steps(vocabulary: Vocabulary) -> list[Any]:
    prefix = vocabulary.metadata.get("tokenizer.ggml.add_space_prefix", True)
    unknown = vocabulary.role("unknown")
    return [
        *([RegexNormalizationStep(r"(?s)^(.)", rf"{_SPACE}$1")] if prefix else []),
        RegexNormalizationStep(" ", _SPACE),
        BPETokenizationStep(
            vocab=list(vocabulary.tokens),
            merges=_merges_by_score(vocabulary),
            unk_token="" if unknown is None else vocabulary.tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
            added_tokens={vocabulary.tokens[id]: id for id in vocabulary.special()},
        ),
    ]


def _merges_by_score(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Return all pairs of tokens that make a token, the best-scored token first."""
    scores = vocabulary.metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(vocabulary.tokens):
        raise ModelFormatError(
            "its tokenizer has no score for each token (tokenizer.ggml.scores). Download a complete "
            "conversion of the model."
        )
    special = set(vocabulary.special())
    known = {token: id for id, token in enumerate(vocabulary.tokens) if id not in special}
    merges: list[tuple[float, int, str, str]] = []
    for token, id in known.items():
        for at in range(1, len(token)):
            left, right = token[:at], token[at:]
            if left in known and right in known:
                merges.append((-scores[id], id, left, right))
    return [(left, right) for _, _, left, right in sorted(merges)]
