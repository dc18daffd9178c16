"""What the engine asks of any source of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

MAX_DRAFT_TOKENS: Final = 128
"""More are not verified at once: a pass that long would keep others waiting."""


class Drafter(Protocol):
    """Proposes what one sequence goes on with. Called on the engine thread only, and must be quick.

    A draft changes nothing but the number of passes: the model computes all of its tokens in one, and the
    sequence's sampler chooses token by token from the results as it always would. Those that it chooses
    just so are kept; at the first that differs the rest is forgotten. So what the drafter proposes need only
    be likely, and tokens are the same with and without it, also under sampling, where the same random
    numbers meet the same probabilities: in f32 to the last bits of a sum, and elsewhere as nearly as a
    batch of another size has the same logits.
    """

    def draft(self, token: int) -> Sequence[int]:
        """Take note of the ``token`` that was chosen, and say what may come behind it, or nothing.

        Called once for each token of the answer, in order, also for those that were drafted; what it
        returns for any but the last of a pass is ignored.
        """
        ...
