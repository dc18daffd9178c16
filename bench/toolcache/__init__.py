"""The tool cache bench: SpecTools' Algorithms 4 and 5."""
