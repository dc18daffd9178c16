"""Whether the spans of the example scripts are linked to each other."""
