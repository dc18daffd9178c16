"""XPUs and platforms: who runs kernels, for real or in virtual time."""

from .loading import LoadedModel, load_model, load_profile
from .platforms import PLATFORMS, OpenVINOPlatform, find_platform
from .protocol import XPU, CostModel, KernelDone, Platform
from .rooflines import simulated_machines, simulated_profile
from .simulated import SimulatedPlatform, SimulatedXPU, VirtualClock, simulate
from .warm_up import warm_up
from .watchdog import LostThread

__all__ = [
    "PLATFORMS",
    "XPU",
    "CostModel",
    "KernelDone",
    "LoadedModel",
    "LostThread",
    "OpenVINOPlatform",
    "Platform",
    "SimulatedPlatform",
    "SimulatedXPU",
    "VirtualClock",
    "find_platform",
    "load_model",
    "load_profile",
    "simulate",
    "simulated_machines",
    "simulated_profile",
    "warm_up",
]
