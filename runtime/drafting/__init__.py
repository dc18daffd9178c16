"""Tokens that a sequence may go on with, verified several at a time."""

from .protocol import MAX_DRAFT_TOKENS, Drafter

__all__ = ["MAX_DRAFT_TOKENS", "Drafter"]
