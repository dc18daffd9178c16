"""The heterogeneous execution graph (Agent.xpu §5): a model as kernels, and what each of them costs."""

from .kernel import Kernel, KernelCost, KernelKind, PassContext, PassInputs, PassShape, Role

__all__ = ["Kernel", "KernelCost", "KernelKind", "PassContext", "PassInputs", "PassShape", "Role"]
