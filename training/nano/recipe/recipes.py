"""What is trained on what, for how long: the phases of each model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..turns import Mix


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
    mix: Mix = field(default_factory=Mix)
    blends: float = 0.0
    """:attr:`Vocabulary.blends` of its dialogues."""
    copy_rows: float = 0.0
    """Share of rows that repeat stretches of random tokens instead of holding a dialogue."""
    unknown_words: float = 0.0
    """:class:`Wording`'s share of requests with an unknown word in them."""
    pass_words_on: bool = False
    """Whether to begin with :func:`.induction.pass_words_on`."""
    processes: int = 1
    """Each computes its share of every step's rows; their gradients are averaged."""
    tokens_per_step: int = 4096
    average: bool = False
    """Whether to end with the mean of the weights that the phase began with and those it came to."""
    uses: int = 1
    """How often each batch is trained on, with others between (:func:`.feed.repeated`)."""


@dataclass(frozen=True)
class Recipe:
    """What to train: a size, a seed, and phases one after the other."""

    size: str
    seed: int
    phases: tuple[Phase, ...]


_GPU_TOKENS_PER_STEP, _SECOND_PASS = 32_768, 2.1
_COPYING_ROWS = (RowKind(512, 1.0, 5, (4,)),)
"""Whole dialogues over few tools: markup and copying are learned from them first, and fast."""
_CHOOSING_ROWS = (
    # Requests to tools of mostly meaningless names, each called about once: teaches to choose by description.
    RowKind(512, 0.22, 4, (2, 3, 4, 5), calls_only=True),
    RowKind(1024, 0.22, 13, (10,), calls_only=True),
    # Few turns, with results and answers. More of them over the same tools would teach to repeat calls.
    RowKind(512, 0.32, 2, (3, 6, 10, 10)),
    RowKind(1024, 0.19, 4, (6, 10)),
    RowKind(2048, 0.05, 12, (10,)),
)
NAMES_ROWS = RowKind(512, 1.0, 1, (10,), calls_only=True)
"""Many names of tools: what :func:`.induction.pass_words_on` learns to say."""

_COPYING = Phase(
    tokens=5_000_000,
    horizon=0,
    learning_rate=2.5e-3,
    rows=_COPYING_ROWS,
    mix=Mix(small_talk=0.07, unserved=0.12, searches=0.25),
    blends=0.6,
    copy_rows=0.06,
    unknown_words=0.3,
    processes=2,
)
_CHOOSING = replace(_COPYING, rows=_CHOOSING_ROWS)
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


def _phases(copying: int, choosing: int, saying: int, reading_on: int) -> tuple[Phase, ...]:
    """Phases of so many tokens; over the first two the learning rate hardly falls."""
    total = copying + choosing + saying
    return (
        replace(_COPYING, tokens=copying, horizon=total),
        replace(_CHOOSING, tokens=choosing, horizon=total),
        replace(_CHOOSING, tokens=saying, horizon=saying, pass_words_on=True),
        replace(_READING_ON, tokens=reading_on, horizon=reading_on),
    )


MAIN = Recipe("main", seed=0, phases=_phases(5_000_000, 10_000_000, 50_000_000, 12_000_000))
DRAFT = Recipe("draft", seed=1, phases=_phases(2_000_000, 4_000_000, 12_000_000, 3_000_000))


def on_gpu(recipe: Recipe, times: float, uses: int) -> Recipe:
    """``recipe`` for a GPU: steps of 32,768 tokens, ``times`` as many of them, each batch ``uses`` times.

    One process trains; others write the dialogues (:mod:`.feed`). The last phase comes twice, longer the
    second time, and the mean of both ends is taken: it is better than either.
    """

    def scaled(phase: Phase) -> Phase:
        factor = _GPU_TOKENS_PER_STEP / phase.tokens_per_step * times
        return replace(
            phase,
            tokens=round(phase.tokens * factor),
            horizon=round(phase.horizon * factor),
            tokens_per_step=_GPU_TOKENS_PER_STEP,
            processes=1,
            uses=uses,
        )

    phases = tuple(map(scaled, recipe.phases))
    longer = round(phases[-1].tokens * _SECOND_PASS)
    again = replace(phases[-1], tokens=longer, horizon=longer, average=True)
    return replace(recipe, phases=(*phases, again))
