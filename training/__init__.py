"""Training code. It is no part of the installed package."""
