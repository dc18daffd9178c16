"""XPUs and platforms: who runs kernels, for real or in virtual time."""

from .protocol import XPU, CostModel, KernelDone, Platform

__all__ = ["XPU", "CostModel", "KernelDone", "Platform"]
