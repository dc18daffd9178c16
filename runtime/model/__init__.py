"""A model directory, checked, transformed to paged attention and compiled, with its tokenizer."""

from ..structured_output.answer_grammar import AnswerConstraint, AnswerGrammar, CallRules
from .detokenizer import Detokenizer
from .directory import ModelDirectory, open_model_directory
from .tokenizer import Tokenizer
from .tool_call_format import detect_call_format

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
