"""The byte-level BPE tokenizer of the nano models, made so that copying is easy.

Spaces are tokens of their own and punctuation never joins a word, so that a word has the same tokens inside a
request, inside JSON and inside an answer; digits are single. Only runs of JSON punctuation may merge.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ..dialogues import Author
from ..markup import MARKUP_TOKENS, SPECIAL_TOKENS, segments

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY_SIZE = 2048
PRE_TOKENS = r"""\p{L}+|\p{N}|["\[\]{}:,]+(?: ["\[{]+)?|\s|[^\s\p{L}\p{N}]"""


def train_tokenizer(seed: int = 0, dialogues: int = 5000) -> Tokenizer:
    """Train the tokenizer on synthetic dialogues of the training split; deterministic given ``seed``."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    author = Author(Random(seed), "train")
    texts = ("".join(part.text for part in segments(author.dialogue(5))) for _ in range(dialogues))
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[*SPECIAL_TOKENS, *MARKUP_TOKENS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=14,
    )
    tokenizer.train_from_iterator(texts, trainer)
    state = json.loads(tokenizer.to_str())
    for token in state["added_tokens"]:
        # A special token vanishes from decoded text; the markup of calls must stay in it.
        token["special"] = token["content"] in SPECIAL_TOKENS
    return Tokenizer.from_str(json.dumps(state))


def load_tokenizer(path: Path) -> Tokenizer:
    """Read ``tokenizer.json`` as it is (some loaders replace its pre-tokenizer, which changes every id)."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))
