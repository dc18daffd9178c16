"""Platforms of OpenVINO devices: the device of each role, over one KV arena that all of them share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import openvino as ov

from agentrt.errors import ConfigurationError

from ..heg.kernel import BatchContext, Role
from ..model.openvino_core import openvino_core
from .buffers import BatchBuffers, BufferPool
from .device import OpenVINOXPU
from .machine import release_file_pages


@dataclass(frozen=True, slots=True)
class Device:
    """An OpenVINO device, and its properties in a role."""

    name: str
    """``CPU``, ``GPU`` or ``NPU``; with several of a kind, ``GPU.1`` and so on."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """OpenVINO properties beside those of the runtime's configuration."""


PLATFORMS: Final[Mapping[str, Mapping[Role, Device]]] = {
    "cpu": {Role.DECODE: Device("CPU")},
    # Two XPUs on any machine, so that features that need two can be tested everywhere. OpenVINO pins
    # one-thread models to the first core unless pinning is disabled.
    "emulated": {
        role: Device("CPU", {"INFERENCE_NUM_THREADS": 1, "ENABLE_CPU_PINNING": False}) for role in Role
    },
    "intel-ultra": {Role.PREFILL: Device("NPU"), Role.DECODE: Device("GPU")},
}
"""The device of each role, by the name of the platform."""


def find_platform(name: str) -> tuple[str, Mapping[Role, Device]]:
    """Return a platform's name and devices; ``"auto"`` is NPU and GPU where both exist, else the CPU.

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
    """OpenVINO XPUs over one arena. A :class:`Platform`."""

    def __init__(self, name: str, xpus: Mapping[Role, OpenVINOXPU], pool: BufferPool, weights: Path) -> None:
        """``pool`` is the buffer pool of all ``xpus``, ``weights`` the file of the model's weights."""
        self.name: Final = name
        self.xpus: Final = dict(xpus)
        self._pool = pool
        self._weights = weights

    def allocate(self, element_type: ov.Type, shape: ov.Shape) -> ov.Tensor:
        """Allocate memory for keys or values that the DECODE device reads and writes in place.

        Raises:
            RuntimeError: there is not enough memory.
        """
        kernels = self.xpus[Role.DECODE].kernels
        if kernels.device.startswith("CPU"):
            return ov.Tensor(element_type, shape)
        # Any other host memory would be copied to an integrated GPU for each kernel, and never back.
        return next(iter(kernels.models)).get_context().create_host_tensor(element_type, shape)

    def attach(self, caches: Mapping[str, ov.Tensor]) -> None:
        """Use ``caches``, key and value tensors by input name. Call it once, before the first batch."""
        for xpu in self.xpus.values():
            xpu.attach(caches)

    @property
    def caches(self) -> Mapping[str, ov.Tensor]:
        """The attached key and value tensors; empty once closed."""
        return self.xpus[Role.DECODE].caches

    def now(self) -> float:
        """See :meth:`Platform.now`."""
        return time.perf_counter()

    def release(self, context: BatchContext) -> None:
        """See :meth:`Platform.release`."""
        buffers: BatchBuffers | None = context.buffers
        context.buffers = context.logits = None
        if buffers is not None:
            self._pool.give_back(buffers)

    def reclaim(self, idle_s: float) -> None:
        """See :meth:`Platform.reclaim`. Pages of the weights' file are released, too.

        OpenVINO reads the embedding of each token from there, and with it the system loads its surroundings.
        """
        for xpu in self.xpus.values():
            xpu.reclaim(idle_s)
        release_file_pages(self._weights)

    def close(self) -> None:
        """See :meth:`Platform.close`."""
        for xpu in self.xpus.values():
            xpu.close()
        self._pool.close()
