"""The contexts of each app: their texts, their limits, and who may continue them (LLMS §3.1)."""
