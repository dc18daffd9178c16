"""The heterogeneous execution graph (Agent.xpu §5): a model as kernels, and what each of them costs."""

from .granularity import choose_granularity
from .graph import ExecutionGraph
from .kernel import BatchContext, BatchInputs, BatchShape, Kernel, KernelCost, KernelKind, Role
from .profile import Profile

__all__ = [
    "BatchContext",
    "BatchInputs",
    "BatchShape",
    "ExecutionGraph",
    "Kernel",
    "KernelCost",
    "KernelKind",
    "Profile",
    "Role",
    "choose_granularity",
]
