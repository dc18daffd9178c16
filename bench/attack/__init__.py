"""The attack bench: hostile clients, engines and faults against real server processes."""
