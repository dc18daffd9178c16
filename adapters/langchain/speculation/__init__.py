"""Chat models that speculate beside their requests."""
