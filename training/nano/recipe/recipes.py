"""What is trained on what, for how long: the sizes of the models and their phases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..turns import Mix


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of one model. The head size is 64, one KV head serves all query heads, embeddings are tied."""

    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    vocabulary_size: int = 2048
    context_length: int = 2048
    rope_theta: float = 1e6
    norm_epsilon: float = 1e-6

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.heads


class RowKind(NamedTuple):
    """One kind of training row: a dialogue cut or padded to ``length`` tokens."""

    length: int
    share: float
    """Of the steps."""
    turns: int
    most_tools: tuple[int, ...]
    """One of these bounds the number of tools."""
    calls_only: bool = False
    """:attr:`Dialogue.calls_only` of its dialogues."""


@dataclass(frozen=True)
class Phase:
    """A stretch of training. It starts with fresh optimizer moments and a warm-up."""

    tokens: int
    """Positions to train on, padding included."""
    horizon: int
    """Where the cosine of the learning rate ends, in tokens; past ``tokens`` if the phase stops early."""
    learning_rate: float
    rows: tuple[RowKind, ...]
    mix: Mix
    blends: float = 0.0
    """:attr:`Vocabulary.blends` of its dialogues."""
    copy_rows: float = 0.0
    """Share of rows that repeat stretches of random tokens instead of holding a dialogue."""
    unknown_words: float = 0.0
    """:class:`Wording`'s share of requests with an unknown word in them."""
    pass_words_on: bool = False
    """Whether to begin with :func:`.induction.pass_words_on`."""
    tokens_per_step: int = 32_768
    average: bool = False
    """Whether to end with the mean of the weights that the phase began with and those it came to."""
    uses: int = 3
    """How often each batch is trained on, with others between (:func:`.training.repeated`)."""


@dataclass(frozen=True)
class Recipe:
    """What to train: a network, a seed, and phases one after the other."""

    network: NetworkConfig
    seed: int
    phases: tuple[Phase, ...]


NAMES_ROWS = RowKind(512, 1.0, 1, (10,), calls_only=True)
"""Many names of tools: what :func:`.induction.pass_words_on` learns to say."""

_COPYING = Phase(
    tokens=0,
    horizon=0,
    learning_rate=2.5e-3,
    # Whole dialogues over few tools: markup and copying are learned from them first, and fast.
    rows=(RowKind(512, 1.0, 5, (4,)),),
    mix=Mix(small_talk=0.07, unserved=0.12, searches=0.25),
    blends=0.6,
    copy_rows=0.06,
    unknown_words=0.3,
)
_CHOOSING = replace(
    _COPYING,
    rows=(
        # Requests to tools of mostly meaningless names, each called about once: to choose by description.
        RowKind(512, 0.22, 4, (2, 3, 4, 5), calls_only=True),
        RowKind(1024, 0.22, 13, (10,), calls_only=True),
        # Few turns, with results and answers. More of them over the same tools would teach to repeat calls.
        RowKind(512, 0.32, 2, (3, 6, 10, 10)),
        RowKind(1024, 0.19, 4, (6, 10)),
        RowKind(2048, 0.05, 12, (10,)),
    ),
)
_READING_ON = replace(
    _COPYING,
    learning_rate=1e-3,
    rows=(
        RowKind(512, 0.1, 4, (2, 3, 4, 5), calls_only=True),
        RowKind(1024, 0.1, 13, (10,), calls_only=True),
        RowKind(512, 0.5, 2, (3, 6, 10, 10)),
        RowKind(1024, 0.3, 4, (6, 10)),
    ),
    # Of the requests before, too few search or have a hit read as well to tell the two apart in any words.
    mix=Mix(small_talk=0.05, unserved=0.12, searches=0.5),
    unknown_words=0.45,
)


def _phases(copying: int, choosing: int, saying: int, reading_on: int, again: int) -> tuple[Phase, ...]:
    """The phases with so many tokens each; the last one repeats the one before and ends in the mean."""
    total = copying + choosing + saying
    return (
        replace(_COPYING, tokens=copying, horizon=total),
        replace(_CHOOSING, tokens=choosing, horizon=total),
        replace(_CHOOSING, tokens=saying, horizon=saying, pass_words_on=True),
        replace(_READING_ON, tokens=reading_on, horizon=reading_on),
        replace(_READING_ON, tokens=again, horizon=again, average=True),
    )


MAIN = Recipe(
    NetworkConfig(hidden_size=192, layers=6, heads=3, intermediate_size=512),
    seed=0,
    phases=_phases(36_000_000, 72_000_000, 360_000_000, 86_400_000, 181_440_000),
)
DRAFT = Recipe(
    NetworkConfig(hidden_size=128, layers=4, heads=2, intermediate_size=320),
    seed=1,
    phases=_phases(25_600_000, 51_200_000, 153_600_000, 38_400_000, 80_640_000),
)
