"""Benches. Each figure in the documentation is measured by one of them; ``agentrt bench NAME`` runs
``agentrt.bench.NAME.main``."""
