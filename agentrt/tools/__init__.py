"""Speculable tools, their speculations, and how real calls claim them."""
