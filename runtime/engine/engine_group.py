"""Engines of several models on one machine: their background work pauses for reactive work of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable


class EngineGroup:
    """The engines that share a machine, each of which schedules its own model. Thread-safe.

    While any other engine has reactive work, background work starts no kernel. So a reactive request of one
    model shares the machine with at most one kernel of background work of each other model: the one that
    was running, which is interrupted or takes at most a quantum. Work that was promoted by aging gets one
    kernel after every so many reactive ones of the others, as it would within one engine
    (:attr:`Policy.promoted_stride`).

    Reactive requests of different models run side by side; the operating system shares the cores among them.
    """

    def __init__(self) -> None:
        """Create a group without members."""
        self.lock = threading.Lock()
        """Held by members that change anything of the group or of a member."""
        self.members: list[EngineGroupMember] = []
        """Read it on any thread."""
        self.kernels_since_promoted = 0
        """Reactive kernels of all members since promoted work has had its turn."""

    def wake_paused(self) -> None:
        """Have the members whose background work is paused ask again. Call it with the lock."""
        for member in self.members:
            if member.paused:
                member.wake()


class EngineGroupMember:
    """One engine in a group. It asks before each kernel (:meth:`update`)."""

    def __init__(
        self,
        group: EngineGroup,
        wake: Callable[[], None],
        interrupt: Callable[[], None],
        promoted_stride: int,
    ) -> None:
        """Join ``group``.

        ``wake`` is called, on any thread, when its paused background work may go on, and ``interrupt`` when
        another engine has reactive work; they must not block. ``promoted_stride`` is the policy's.
        """
        self._group = group
        self._promoted_stride = promoted_stride
        self.wake = wake
        self.interrupt = interrupt
        self.reactive = False
        """Whether the engine has reactive work."""
        self.paused = False
        """Whether the engine's background work has to wait."""
        with group.lock:
            group.members.append(self)

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
        group = self._group
        with group.lock:
            ended = self.reactive and not reactive
            if reactive and not self.reactive:
                for other in group.members:
                    if other is not self:
                        other.interrupt()
            self.reactive = reactive
            turn = promoted and group.kernels_since_promoted >= self._promoted_stride
            self.paused = not turn and self.others_reactive
            if ended:
                group.wake_paused()
            return not self.paused

    def note_kernel(self, *, background: bool) -> None:
        """Note that a kernel of reactive or of background work starts."""
        group = self._group
        with group.lock:
            if background:
                if self.others_reactive:
                    group.kernels_since_promoted = 0
                return
            group.kernels_since_promoted += 1
            if group.kernels_since_promoted % self._promoted_stride == 0:
                group.wake_paused()

    def leave(self) -> None:
        """Leave the group, with all work ended. May be called again."""
        group = self._group
        with group.lock:
            if self in group.members:
                group.members.remove(self)
                self.wake = self.interrupt = lambda: None  # else the engine would stay in memory
                group.wake_paused()
