"""Platforms of OpenVINO devices: which device takes which role, over one arena that all of them share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import openvino as ov

from agentrt.errors import ConfigurationError

from ..heg.kernel import BatchContext, Role
from ..model.openvino_core import openvino_core
from .buffers import BatchBuffers, BufferPool
from .device import OpenVINOXPU


@dataclass(frozen=True, slots=True)
class Device:
    """An OpenVINO device in a role."""

    name: str
    """``CPU``, ``GPU``, ``NPU``, or one of several: ``GPU.1``."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """On top of the runtime's own."""


PLATFORMS: Final[Mapping[str, Mapping[Role, Device]]] = {
    "cpu": {Role.DECODE: Device("CPU")},
    # Two XPUs on any machine: what needs two can be tried, and tested, everywhere. One-thread models are
    # pinned to the first core unless they are told not to be.
    "emulated": {
        role: Device("CPU", {"INFERENCE_NUM_THREADS": 1, "ENABLE_CPU_PINNING": False}) for role in Role
    },
    "intel-ultra": {Role.PREFILL: Device("NPU"), Role.DECODE: Device("GPU")},
}
"""Which device has which role, by the name of the platform."""


def find_platform(name: str) -> tuple[str, Mapping[Role, Device]]:
    """The devices of a platform; ``"auto"`` takes the NPU and the GPU where both are there, else the CPU.

    Raises:
        ConfigurationError: there is no such platform, or this machine lacks a device of it.
    """
    available = {device.partition(".")[0] for device in openvino_core().available_devices}
    if name == "auto":
        name = "intel-ultra" if {"NPU", "GPU"} <= available else "cpu"
    devices = PLATFORMS.get(name)
    if devices is None:
        raise ConfigurationError(
            f"there is no platform {name!r}. Choose 'auto' or one of {', '.join(map(repr, PLATFORMS))}."
        )
    missing = sorted({device.name for device in devices.values()} - available)
    if missing:
        raise ConfigurationError(
            f"platform {name!r} needs {' and '.join(missing)}, but OpenVINO finds only "
            f"{', '.join(sorted(available))} here. Install the drivers, or choose platform='cpu'."
        )
    return name, devices


class OpenVINOPlatform:
    """XPUs over one arena; see :class:`Platform` for what is promised."""

    def __init__(self, name: str, xpus: Mapping[Role, OpenVINOXPU], pool: BufferPool) -> None:
        """``pool`` is the one that all the XPUs take their buffers from."""
        self._name = name
        self._xpus = dict(xpus)
        self._pool = pool

    @property
    def name(self) -> str:
        """See :attr:`Platform.name`."""
        return self._name

    @property
    def xpus(self) -> Mapping[Role, OpenVINOXPU]:
        """See :attr:`Platform.xpus`."""
        return self._xpus

    def allocate(self, element_type: ov.Type, shape: ov.Shape) -> ov.Tensor:
        """Memory for keys or values that the attending device reads and writes in place.

        Raises:
            RuntimeError: there is not that much.
        """
        compiled = next(iter(self._xpus[Role.DECODE].kernels.models))
        if self._xpus[Role.DECODE].kernels.device.startswith("CPU"):
            return ov.Tensor(element_type, shape)
        # Host memory of any other kind would be copied to an integrated GPU for each kernel, and never back.
        return compiled.get_context().create_host_tensor(element_type, shape)

    def attach(self, caches: Mapping[str, ov.Tensor]) -> None:
        """Use these key and value tensors, by input name. To be called once, before the first pass."""
        for xpu in self._xpus.values():
            xpu.attach(caches)

    def now(self) -> float:
        """See :meth:`Platform.now`."""
        return time.perf_counter()

    def release(self, context: BatchContext) -> None:
        """See :meth:`Platform.release`."""
        buffers: BatchBuffers | None = context.buffers
        context.buffers = context.logits = None
        if buffers is not None:
            self._pool.give_back(buffers)

    def reclaim(self) -> None:
        """Give back the scratch memory of kernels that do not run (Agent.xpu §6.5, kernel memory reclaim).

        For when nothing is to be done: the next run of each kernel allocates it again. No kernel may be
        running; passes that are paused stay valid.
        """
        for xpu in self._xpus.values():
            xpu.kernels.release_memory()

    def close(self) -> None:
        """See :meth:`Platform.close`."""
        for xpu in self._xpus.values():
            xpu.close()
        self._pool.close()
