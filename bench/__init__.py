"""Benches: every figure that the documentation states is measured by one of these."""
