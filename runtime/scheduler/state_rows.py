"""The state rows of sequences of a hybrid model, and the checkpoints from which prefixes are reused.

A recurrent layer keeps one state per sequence, which each token overwrites: it cannot be cut back to an
earlier token as a block table can. So no batch writes to a row that its sequence may have to go on from. A
sequence has two rows of its own; a batch reads one and writes the other, and the two change places when the
batch is completed. A batch that is dropped, or fails, leaves the sequence where it was.

A *checkpoint* is a row with the state behind some complete KV blocks, cached under the hash of the last of
them and never written again. A sequence with this prefix begins by reading it. Checkpoints take only rows
that no sequence needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from ..heg.kernel import StateAccess
from ..kv.block_pool import BlockPool
from ..kv.eviction_policy import EvictionPolicy

CHECKPOINT_BLOCKS: Final = 8
"""KV blocks between two checkpoints of a prompt; the last one is behind its last complete block."""

ROWS_PER_SEQUENCE: Final = 2


@dataclass(slots=True)
class StateRows:
    """The rows that one sequence holds."""

    current: int
    """Row with the state behind its computed tokens: one of its own, a checkpoint, or the zero row."""
    own: tuple[int, ...] = ()
    """Two rows that no other sequence uses, from its admission on."""
    checkpoints: tuple[int, ...] = ()
    """Further rows that the batch in progress writes."""
    positions: tuple[int, ...] = ()
    """Tokens behind which the batch in progress takes checkpoints; the last may be at its end."""
    access: StateAccess | None = None
    """The rows of the batch in progress."""


class _Plan(NamedTuple):
    """The checkpoints that one batch takes of one sequence."""

    positions: tuple[int, ...]
    """Tokens behind which they are taken, ascending."""
    rows: int
    """How many of them lie before the end of the batch's tokens, and need a row each."""
    past: int
    interval: int
    """See :class:`StateAccess`."""

    @classmethod
    def of(cls, computed: int, end: int, last: int, interval: int) -> Self:
        """Plan checkpoints behind ``last`` tokens and every ``interval`` tokens before."""
        past = (computed - last) % interval
        positions = tuple(range(last, computed, -interval))[::-1]
        return cls(positions, -(-(past + end - computed) // interval) - 1, past, interval)


_NO_CHECKPOINTS: Final = _Plan((), 0, 0, 0)


class StateManager:
    """State rows of sequences over one pool of rows. Row ``pool.total`` holds the zero state."""

    def __init__(self, pool: BlockPool, block_tokens: int) -> None:
        """Create a manager of ``pool``, none of whose rows are held."""
        self._pool = pool
        self._block_tokens = block_tokens
        self._zero = pool.total

    @property
    def free(self) -> int:
        """Rows that no sequence or batch needs."""
        return self._pool.free

    @property
    def eviction(self) -> EvictionPolicy:
        """Which checkpoints give way first."""
        return self._pool.eviction

    @property
    def suffices(self) -> bool:
        """Whether enough rows are usable for any one sequence; it may begin from a checkpoint."""
        return self._pool.usable > ROWS_PER_SEQUENCE

    def begin(self, checkpoint: int | None) -> StateRows:
        """Return the rows of a sequence that begins from ``checkpoint``, which it takes, or from zero."""
        return StateRows(self._zero if checkpoint is None else checkpoint)

    def reserve(self, rows: StateRows) -> None:
        """Give a sequence that is admitted its own rows; there must be enough."""
        rows.own = tuple(self._pool.allocate(ROWS_PER_SEQUENCE))

    def start(self, rows: StateRows, computed: int, length: int, *, prompt_ends: bool, shared: int) -> None:
        """Choose the rows of a batch that computes ``length`` tokens behind ``computed``.

        States behind at most ``shared`` tokens may be shared. ``prompt_ends`` says whether the last token of
        a prompt is among these tokens.
        """
        end = computed + length
        step = self._block_tokens if prompt_ends else CHECKPOINT_BLOCKS * self._block_tokens
        last = end // step * step
        plan = _NO_CHECKPOINTS
        if computed < last <= shared:
            # As many as there are rows for: the last one is worth the most.
            plans = (_Plan.of(computed, end, last, every) for every in self._intervals(end))
            plan = next((plan for plan in plans if plan.rows <= self._pool.free), _NO_CHECKPOINTS)
        rows.checkpoints = tuple(self._pool.allocate(plan.rows))
        rows.positions = plan.positions
        write = next(row for row in rows.own if row != rows.current)
        rows.access = StateAccess((rows.current, *rows.checkpoints, write), plan.past, plan.interval)

    def complete(self, rows: StateRows, hashes: Sequence[bytes], app: str) -> None:
        """Go on from the state that a completed batch of ``app`` has written.

        ``hashes`` are those of the blocks before each of ``rows.positions``.
        """
        assert rows.access is not None
        written = rows.access.rows[-1]
        for row, block_hash in zip(rows.checkpoints, hashes, strict=False):
            self._pool.cache(row, block_hash, app)
        self._release_shared(rows)
        rows.current = written
        if len(hashes) > len(rows.checkpoints) and self._pool.free:
            # The state at the end becomes a checkpoint, and another row takes its place.
            self._pool.cache(written, hashes[-1], app)
            rows.own = (*(row for row in rows.own if row != written), *self._pool.allocate(1))
        self.abandon(rows)

    def abandon(self, rows: StateRows) -> None:
        """Forget a batch that was dropped: the sequence goes on from where it was."""
        self._pool.release(rows.checkpoints)
        rows.checkpoints = rows.positions = ()
        rows.access = None

    def quarantine(self, rows: StateRows) -> None:
        """Take the rows that the batch in progress writes out of use: its kernel hangs."""
        assert rows.access is not None
        self._pool.quarantine(rows.access.rows[1:])
        rows.own = tuple(row for row in rows.own if row not in rows.access.rows[1:])
        rows.checkpoints = rows.positions = ()
        rows.access = None

    def release(self, rows: StateRows) -> None:
        """Release all rows of a sequence; checkpoints can still be found."""
        self.abandon(rows)
        self._release_shared(rows)
        self._pool.release(rows.own)

    def acquire_checkpoint(self, block_hash: bytes) -> int | None:
        """Take the checkpoint behind the block of this hash for one more holder; None if there is none."""
        found = self._pool.acquire_cached([block_hash])
        return found[0] if found else None

    def release_checkpoint(self, row: int) -> None:
        """Release a checkpoint that was taken."""
        self._pool.release([row])

    def check_integrity(self, held: Iterable[StateRows]) -> None:
        """Check that sequences' rows account for every row."""
        self._pool.check_integrity([*rows.own, *rows.checkpoints, *self._shared(rows)] for rows in held)

    def _intervals(self, end: int) -> tuple[int, int]:
        """Tokens between two checkpoints: the usual number, or too many for a second one before ``end``."""
        return CHECKPOINT_BLOCKS * self._block_tokens, end

    def _shared(self, rows: StateRows) -> tuple[int, ...]:
        """The row that a sequence reads and has not of its own, if any."""
        return () if rows.current in (self._zero, *rows.own) else (rows.current,)

    def _release_shared(self, rows: StateRows) -> None:
        self._pool.release(self._shared(rows))
