"""Adapters: one public module per agent framework."""
