"""The heterogeneous execution graph (Agent.xpu §5): a model as kernels, and what each of them costs."""
