"""The bench of contexts that are kept in memory and on disk."""
