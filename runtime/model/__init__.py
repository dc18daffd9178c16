"""A model directory, checked, transformed to paged attention and compiled, with its tokenizer."""
