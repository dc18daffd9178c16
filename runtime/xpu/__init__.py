"""XPUs and platforms: who runs kernels, for real or in virtual time."""
