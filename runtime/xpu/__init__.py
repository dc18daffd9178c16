"""XPUs and platforms: who runs kernels, for real or in virtual time."""

from .loading import LoadedModel, load_model, load_profile
from .platforms import PLATFORMS, OpenVINOPlatform, find_platform
from .protocol import XPU, CostModel, KernelDone, Platform

__all__ = [
    "PLATFORMS",
    "XPU",
    "CostModel",
    "KernelDone",
    "LoadedModel",
    "OpenVINOPlatform",
    "Platform",
    "find_platform",
    "load_model",
    "load_profile",
]
