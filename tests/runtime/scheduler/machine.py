"""A machine in virtual time whose kernels take exactly their estimated time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.priority import Priority
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import KernelKind, Role
from agentrt.runtime.heg.profile import Curve, LayerCosts, Profile, StaticGroups, XPUProfile
from agentrt.runtime.kv.block_hashes import BlockHashes
from agentrt.runtime.kv.block_pool import BlockPool
from agentrt.runtime.scheduler.batch import ScheduledChunk
from agentrt.runtime.scheduler.draft import Draft
from agentrt.runtime.scheduler.launch_decision import ScheduledKernel
from agentrt.runtime.scheduler.policy import Policy
from agentrt.runtime.scheduler.scheduler import Scheduler
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState

BLOCK = 4
QUANTUM = 0.025
LAYERS = 4


def profile(*, xpus: int = 1, decode_share: float = 0.8, read_s: float = 0.0) -> Profile:
    """Four layers; a token takes 1 ms in each, a decode step 4 ms in all, 9 MB of weights a layer."""
    xpu = XPUProfile(
        device="test",
        layers=LayerCosts(
            segment_s=0.0,
            entry_s=0.0,
            layer=Curve(counts=(1, 8, 16, 128), seconds=(0.001, 0.001, 0.016, 0.128)),
            head=Curve(counts=(1,), seconds=(0.0,)),
            read_s=read_s,
            pair_s=0.0,
            attention_s=0.001,
        ),
        peak_flops=1e12,
        peak_bandwidth=1e10,
        watts=10.0,
    )
    npu = XPUProfile(
        device="test",
        groups=StaticGroups(tokens=16, first_s=0.004, middle_s=0.008, last_s=0.006),
        peak_flops=1e12,
        peak_bandwidth=1e10,
        watts=2.0,
    )
    return Profile(
        fingerprint="test",
        xpus={Role.DECODE: xpu} | ({Role.PREFILL: npu} if xpus == 2 else {}),
        bandwidth=9e6 / 0.001 / decode_share,
        measured=False,
        block_tokens=BLOCK,
        layers=LAYERS,
        layer_bytes=9_000_000,
        head_bytes=0,
        layer_flops=1_000_000,
        head_flops=0,
        past_bytes=0,
        activation_bytes=1,
    )


@dataclass
class Kernel:
    """One kernel as it ran, with the chunks it had then."""

    scheduled: ScheduledKernel
    chunks: list[ScheduledChunk]
    start: float
    end: float

    @property
    def ends_batch(self) -> bool:
        """Whether it is the last one of its batch."""
        return self.scheduled.kernel.last and self.scheduled.context is self.scheduled.batch.context

    @property
    def ids(self) -> list[int]:
        return [chunk.sequence.id for chunk in self.chunks]


@dataclass
class Machine:
    """Drives a scheduler as the engine does. A sequence's sampled token is its position in the sequence."""

    blocks: int = 64
    batch: int = 8
    xpus: int = 1
    policy: Policy = field(default_factory=Policy)
    quantised_keys: bool = True
    decode_share: float = 0.8
    read_s: float = 0.0
    quantum_s: float = QUANTUM
    interruptible_s: float | None = None
    max_chunk_tokens: int = 16
    state_rows: int = 0
    """State rows of a hybrid model; what a kernel reads and writes there is checked."""
    free_tokens: int = 0
    """Tokens of a batch of decodes that is filled with branches, as on an NPU."""
    watch: Callable[[Kernel], None] | None = None
    """Called with every kernel when it starts."""

    def __post_init__(self) -> None:
        self.graph = ExecutionGraph(
            profile(xpus=self.xpus, decode_share=self.decode_share, read_s=self.read_s),
            tuple(range(LAYERS)),
            block_tokens=BLOCK,
            max_chunk_tokens=self.max_chunk_tokens,
            quantum_s=self.quantum_s,
            interruptible_s=self.interruptible_s,
        )
        self.pool = BlockPool(self.blocks)
        self.state_pool = BlockPool(self.state_rows) if self.state_rows else None
        self.states: dict[int, tuple[int, ...] | None] = {self.state_rows: ()}
        """By state row, the tokens behind which the state in it is; None while it is being written."""
        self.scheduler = self._new_scheduler()
        self.now = 0.0
        self.running: dict[Role, Kernel] = {}
        self.log: list[Kernel] = []
        self.ends: dict[Sequence, int] = {}
        self.habits: dict[Sequence, tuple[tuple[bool, ...], int]] = {}
        self.first: dict[Sequence, float] = {}
        self.done: dict[Sequence, float] = {}
        self.given_up: list[Sequence] = []
        self.attended: dict[int, int] = {}
        """By context, up to which layer the keys and values of its tokens are written."""
        self._ids = 0

    def _new_scheduler(self, **options: Any) -> Scheduler:
        scheduler = Scheduler(
            self.pool,
            self.graph,
            self.policy,
            max_batch_size=self.batch,
            quantised_keys=self.quantised_keys,
            share_sampled=not self.quantised_keys,
            state_pool=self.state_pool,
            **options,
        )
        scheduler._builder._free_tokens = lambda: self.free_tokens  # type: ignore[method-assign]
        return scheduler

    def _end_kernel(self, kernel: Kernel) -> None:
        """Write what the last kernel of a batch computes."""
        self._access_states(kernel, written=True)

    def add(
        self,
        prompt: int | list[int],
        priority: Priority = Priority.REACTIVE,
        *,
        answer: int = 3,
        app: bytes | None = None,
        named: bool = True,
        deadline: float | None = None,
        drafts: tuple[bool, ...] = (),
        given: int = 0,
    ) -> Sequence:
        """``drafts``: which tokens of each draft are right. Each third token is followed by ``given``."""
        tokens = list(range(prompt)) if isinstance(prompt, int) else list(prompt)
        keys = None if app is None else BlockHashes(app, BLOCK)
        name = app.decode() if app is not None and named else ""
        sequence = Sequence(self._ids, priority, tokens, keys, arrived=self.now, deadline=deadline, app=name)
        self._ids += 1
        self.ends[sequence] = len(tokens) + answer
        self.habits[sequence] = (drafts, given)
        shed = self.scheduler.add(sequence, self.now)
        if shed is not None:
            self.given_up.append(shed)
        return sequence

    def background_may_run(self) -> bool:
        return True

    def schedule(self) -> list[ScheduledKernel]:
        """Start the kernels that may start, and log them."""
        decisions = self.scheduler.schedule(self.now, background=self.background_may_run())
        for decision in decisions:
            kernel = Kernel(decision, decision.batch.chunks, self.now, self.now + decision.cost.seconds)
            assert decision.role not in self.running, "one kernel at a time on each XPU"
            self.running[decision.role] = kernel
            self.log.append(kernel)
            self._reads_what_is_written(decision)
            if self.watch is not None:
                self.watch(kernel)
            self._access_states(kernel, written=False)
        self.scheduler.take_dropped_contexts()
        self.scheduler.check_integrity()
        return decisions

    def interrupt(self, after_s: float) -> Kernel:
        """Start the next kernel, on the only XPU, and interrupt it ``after_s`` seconds later."""
        self.schedule()
        kernel = self.running.pop(Role.DECODE)
        assert kernel.scheduled.batch.interruptible
        assert len(kernel.scheduled.kernel.segments) == 1
        self.now += after_s
        self.scheduler.interrupt_kernel(Role.DECODE)
        self.scheduler.check_integrity()
        return kernel

    def step(self) -> Kernel | None:
        """Start the kernels that may start, and advance to the first end of a kernel."""
        self.schedule()
        if not self.running:
            return None
        role, kernel = min(self.running.items(), key=lambda item: item[1].end)
        del self.running[role]
        self.now = kernel.end
        if kernel.scheduled.kernel.kind is not KernelKind.TOKENS:
            self.attended[kernel.scheduled.context.id] = kernel.scheduled.kernel.layers.stop
        if kernel.ends_batch:
            self._end_kernel(kernel)
        completed = self.scheduler.complete_kernel(role, self.now)
        for chunk in completed.chunks if completed else ():
            if chunk.samples:
                self._sample(chunk)
        self.scheduler.check_integrity()
        return kernel

    def _reads_what_is_written(self, scheduled: ScheduledKernel) -> None:
        """Tokens attend to those of the same chunk that the other XPU computes."""
        ahead = scheduled.batch.ahead
        if ahead is not None and scheduled.context is not ahead:
            assert scheduled.kernel.layers.stop <= self.attended.get(ahead.id, 0)

    def _access_states(self, kernel: Kernel, *, written: bool) -> None:
        """Read and write state rows as OpenVINO's recurrent operations do.

        Every kernel reads, and has a table of its own, so that until the last one the rows may hold anything.
        """
        for sequence, length, *_ in kernel.chunks if self.state_rows else ():
            access = sequence.states.access
            computed = sequence.computed_tokens
            assert self.states[access.rows[0]] == tuple(sequence.tokens[:computed])
            assert len(set(access.rows)) == len(access.rows)
            self.states.update(dict.fromkeys(access.rows[1:]))
            for token in range(length) if written else ():
                past = access.past % access.interval + token + 1 if access.interval else 1
                if token == length - 1 or (access.interval and past % access.interval == 0):
                    slot = 1 + (past - 1) // access.interval if access.interval else 1
                    self.states[access.rows[slot]] = tuple(sequence.tokens[: computed + token + 1])

    def _sample(self, chunk: ScheduledChunk) -> None:
        sequence, place = chunk.sequence, 0
        drafts, given = self.habits[sequence]
        path, branches = chunk.draft, list(chunk.branches)
        while sequence.state is not SequenceState.FINISHED:
            token = len(sequence.tokens)
            sequence.tokens.append(token)
            self.first.setdefault(sequence, self.now)
            right = tuple(range(token - place, token + 1))
            if path[: place + 1] != right:
                for branch in [each for each in branches if each.tokens[: place + 1] == right][:1]:
                    self.scheduler.take_branch(sequence, branches, branch)
                    branches.remove(branch)
                    path = branch.tokens
            agrees = place < len(path) and path[place] == token
            if agrees:
                self.scheduler.accept_draft_token(sequence)
            if len(sequence.tokens) >= self.ends[sequence]:
                self.done[sequence] = self.now
                self.scheduler.finish(sequence)
            elif given and len(sequence.sampled_tokens) % 3 == 0:
                self.ends[sequence] += given
                self.scheduler.extend(sequence, range(len(sequence.tokens), len(sequence.tokens) + given))
                return
            elif not agrees:
                known = len(sequence.tokens)
                most = min(len(drafts), self.ends[sequence] - known - 1)
                flags = (drafts[:most], [not right for right in drafts[:most]], [True] * most)
                draft, *others = (
                    Draft(tuple(known + n if right else -1 for n, right in enumerate(each)), (1.0,) * most)
                    for each in flags
                )
                self.scheduler.set_draft(sequence, draft, others)
                return
            place += 1

    def batches(self, most: int = 1000) -> list[list[tuple[int, int, bool]]]:
        """Run until nothing is left; return what each batch computed, in the order in which they ended."""
        made = []
        for _ in range(most):
            kernel = self.step()
            if kernel is None:
                return made
            if kernel.ends_batch:
                made.append([(chunk.sequence.id, chunk.length, chunk.samples) for chunk in kernel.chunks])
        raise AssertionError("the machine does not come to an end")

    def decode(self, sequences: list[Sequence]) -> None:
        """Run until all of ``sequences`` have begun to answer."""
        for sequence in sequences:
            self.until(sequence, first=True)

    def until(self, sequence: Sequence, *, first: bool = False) -> float:
        """Run until ``sequence`` is done, or has its first token; return when that was."""
        times = self.first if first else self.done
        while sequence not in times:
            assert self.step() is not None, "nothing runs, but a sequence waits"
        return times[sequence]


def policy(**changes: Any) -> Policy:
    """The policy of Agent.xpu with ``changes``."""
    return replace(Policy(), **changes)
