"""Tokens that a sequence may go on with, verified several at a time."""
