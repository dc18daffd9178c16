"""How long a prompt will take, for ordering only (Agent.xpu §6.2: estimated time to completion)."""

from __future__ import annotations

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchShape
from .sequence import Sequence


class PrefillEstimate:
    """Seconds to compute what is left of a prompt, from the profile of two chunks.

    Token-level work costs the same for every token; attention costs more the more tokens are behind it. Two
    chunks, one at the beginning of a context and one far into it, tell the two apart.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        """Ask ``graph`` once; afterwards an estimate is two multiplications."""
        chunk = graph.chunk_tokens(0, graph.max_chunk_tokens)
        far = 16 * chunk
        begun = graph.batch_seconds(BatchShape(chunk, 1, 0, 0))
        self._per_token = begun / chunk
        later = graph.batch_seconds(BatchShape(chunk, 1, far, 0))
        self._per_past_token = max(0.0, later - begun) / (far * chunk)

    def seconds_left(self, sequence: Sequence) -> float:
        """Until ``sequence`` can decode, if it ran alone from now on."""
        tokens = max(0, sequence.prefill_end - sequence.computed)
        behind = sequence.computed + tokens / 2
        return tokens * (self._per_token + self._per_past_token * behind)
