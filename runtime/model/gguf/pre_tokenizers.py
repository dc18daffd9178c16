"""The expressions by which byte-level tokenizers split text before merging, by llama.cpp's names for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
