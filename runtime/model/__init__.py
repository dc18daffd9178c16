"""A model directory, checked, transformed to paged attention and compiled, with its tokenizer."""

from .answer_grammar import AnswerConstraint, AnswerGrammar, CallRules
from .call_formats import detect_call_format
from .detokenizer import Detokenizer
from .directory import ModelDirectory, open_model_directory
from .tokenizer import Tokenizer

__all__ = [
    "AnswerConstraint",
    "AnswerGrammar",
    "CallRules",
    "Detokenizer",
    "ModelDirectory",
    "Tokenizer",
    "detect_call_format",
    "open_model_directory",
]
