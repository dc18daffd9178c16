"""The charge for one request of a predictor: estimated when it is sent, corrected by the answer's usage."""

from __future__ import annotations

import json
from collections.abc import Callable

from .drafts import DraftCost, DraftRequest

_BYTES_PER_TOKEN = 4  # of English and JSON in the vocabularies of current models; an answer corrects it


def estimated_tokens(request: DraftRequest) -> int:
    """Return about how many tokens a model reads for ``request``: one for each four bytes of its JSON."""
    text = json.dumps([request.messages, request.tools], ensure_ascii=False, default=str)
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


class DraftCharge:
    """What one request of a predictor has been charged.

    A request that is cut off has cost what it had read, and its usage is never known: so it is charged when
    it is sent, and the charge is replaced by the usage when there is one.
    """

    def __init__(self, request: DraftRequest, price: Callable[[int, int], DraftCost] = DraftCost) -> None:
        """``price`` returns the cost of tokens read and written; by default they cost no money."""
        self._request = request
        self._price = price
        self._charged = DraftCost()

    def send(self, input_tokens: int) -> bool:
        """Charge the reading of ``input_tokens``; return False, without a charge, if no budget allows it."""
        if not self._request.affords(self._price(input_tokens, 0)):
            return False
        self.correct(input_tokens, 0)
        return True

    def correct(self, input_tokens: int, output_tokens: int) -> None:
        """Replace what has been charged by the cost of these tokens."""
        cost = self._price(input_tokens, output_tokens)
        if cost != self._charged:
            self._request.spend(cost - self._charged)
            self._charged = cost

    def cancel(self) -> None:
        """Take the charge back: the request did not reach the model."""
        self.correct(0, 0)
