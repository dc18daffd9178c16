"""Measures the figures of the documentation and writes them into its pages: ``make figures``."""
