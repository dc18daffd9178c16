"""The engines that benches compare, each behind the same interface."""
