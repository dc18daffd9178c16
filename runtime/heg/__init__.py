"""The heterogeneous execution graph (Agent.xpu §5): a model as kernels, and what each of them costs."""

from .granularity import choose_granularity
from .graph import ExecutionGraph
from .kernel import Kernel, KernelCost, KernelKind, PassContext, PassInputs, PassShape, Role
from .profile import Profile

__all__ = [
    "ExecutionGraph",
    "Kernel",
    "KernelCost",
    "KernelKind",
    "PassContext",
    "PassInputs",
    "PassShape",
    "Profile",
    "Role",
    "choose_granularity",
]
