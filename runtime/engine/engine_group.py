"""Engines of several models on one machine: their background work pauses for reactive work of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable


class EngineGroup:
    """Which engines have reactive work. Thread-safe.

    Each engine schedules its own model and asks before each kernel (:meth:`EngineGroupMember.update`).
    While any other engine has reactive work, background work starts no kernel. So a reactive request of one
    model shares the machine with at most one kernel of background work of each other model: the one that
    was running, which is interrupted or takes at most a quantum. Work that was promoted by aging gets one
    kernel after every so many reactive ones of the others, as it would within one engine
    (:attr:`Policy.promoted_stride`).

    Reactive requests of different models run side by side; the operating system shares the cores among them.
    """

    def __init__(self) -> None:
        """Create a group without members."""
        self._lock = threading.Lock()
        self.members: list[EngineGroupMember] = []
        """Read it on any thread; only the methods below change it."""
        self._kernels_since_promoted = 0

    def join(
        self, wake: Callable[[], None], interrupt: Callable[[], None], promoted_stride: int
    ) -> EngineGroupMember:
        """Return the place of one more engine.

        ``wake`` is called, on any thread, when its paused background work may go on, and ``interrupt`` when
        another engine has reactive work; they must not block. ``promoted_stride`` is the policy's.
        """
        with self._lock:
            member = EngineGroupMember(self, wake, interrupt, promoted_stride)
            self.members.append(member)
            return member

    def _leave(self, member: EngineGroupMember) -> None:
        with self._lock:
            if member in self.members:
                self.members.remove(member)
                member.wake = member.interrupt = _do_nothing  # else the engine would stay in memory
                self._wake_paused()

    def _update(self, member: EngineGroupMember, *, reactive: bool, promoted: bool) -> bool:
        with self._lock:
            ended = member.reactive and not reactive
            if reactive and not member.reactive:
                for other in self.members:
                    if other is not member:
                        other.interrupt()
            member.reactive = reactive
            turn = promoted and self._kernels_since_promoted >= member.promoted_stride
            member.paused = not turn and member.others_reactive
            if ended:
                self._wake_paused()
            return not member.paused

    def _note_kernel(self, member: EngineGroupMember, *, background: bool) -> None:
        with self._lock:
            if background:
                if member.others_reactive:
                    self._kernels_since_promoted = 0
                return
            self._kernels_since_promoted += 1
            if self._kernels_since_promoted % member.promoted_stride == 0:
                self._wake_paused()

    def _wake_paused(self) -> None:
        for member in self.members:
            if member.paused:
                member.wake()


class EngineGroupMember:
    """The place of one engine in a group. Only its engine thread changes it."""

    def __init__(
        self,
        group: EngineGroup,
        wake: Callable[[], None],
        interrupt: Callable[[], None],
        promoted_stride: int,
    ) -> None:
        """See :meth:`EngineGroup.join`."""
        self._group = group
        self.wake = wake
        self.interrupt = interrupt
        self.promoted_stride = promoted_stride
        self.reactive = False
        """Whether the engine has reactive work."""
        self.paused = False
        """Whether the engine's background work has to wait."""

    @property
    def alone(self) -> bool:
        """Whether there is no other engine in the group."""
        return len(self._group.members) == 1

    @property
    def others_reactive(self) -> bool:
        """Whether any other engine has reactive work."""
        return any(other.reactive for other in self._group.members if other is not self)

    def update(self, *, reactive: bool, promoted: bool) -> bool:
        """Note whether the engine has reactive work and promoted work.

        Returns:
            Whether its background work may start a kernel now.
        """
        return self._group._update(self, reactive=reactive, promoted=promoted)

    def note_kernel(self, *, background: bool) -> None:
        """Note that a kernel of reactive or of background work starts."""
        self._group._note_kernel(self, background=background)

    def leave(self) -> None:
        """Leave the group, with all work ended. May be called again."""
        self._group._leave(self)


def _do_nothing() -> None:
    pass
