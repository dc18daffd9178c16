"""The demo: the assistant with and without speculation, side by side."""
