"""Finds measured numbers that were typed into a page by hand, where no report keeps them true."""

from __future__ import annotations

import re
from typing import Final

_FROM_REPORTS: Final = re.compile(r"<!-- measured .*?<!-- /measured -->|<!-- figure .*?<!-- / -->", re.DOTALL)
_CODE: Final = re.compile(r"^ *```.*?^ *```|`[^`\n]*(?:\n[^`\n]+)?`", re.DOTALL | re.MULTILINE)
_BENCH: Final = re.compile(r"`agentrt bench[^`]*`")
_SOURCE: Final = re.compile(r"\]\(https?:[^)]*\)")
_LINK: Final = re.compile(r"\]\([^)]*\)")
_VERSION: Final = re.compile(r"\b[Vv]ersion \d[\d.]*")
_SENTENCES: Final = re.compile(r"(?<=[.:;!?])\**\s+(?=\W*[A-Z`*\[])|\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |\|))")

_UNIT: Final = (
    r" ?(?:%|\u00d7|x\b|per cent\b|ms\b|µs\b|s\b|seconds?\b|minutes?\b|hours?\b|times\b"
    r"|[KMG]i?B(?:/s)?\b|tokens?/s\b|tokens? (?:a|per) second\b|points?\b|perplexity\b)"
)
_QUANTITY: Final = re.compile(rf"\b\d[\d,.]*{_UNIT}")
_FRACTION: Final = re.compile(r"(?<![\w.-])\d+\.\d+\b(?!\.\d)")

_MEASURES: Final = re.compile(
    r"\b(?:measured|tried|took|by hand on|faster|slower|sooner|quicker|ours|theirs|ratios?)\b"
    r"|\d times (?:as|its|that|the|longer|more|less)\b|% (?:of the time|more|less|longer|better)|\d\.\d+ of\b"
    rf"|\b(?:\d\.\d\d|\d\d+\.\d){_UNIT}",  # what is chosen is round
    re.IGNORECASE,
)
"""What a sentence says that reports a measurement, whatever else it says."""

_SETS: Final = {
    "a limit": r"at (?:the )?(?:most|least)|up to|(?:more|less|longer|fewer|larger) than|within|bounded|every"
    r"|limits?|refused|disconnected|\d+ \w+ \(4\d\d\)",
    "a deadline": r"wait(?:s|ed|ing)?|until|after|once|deadline|timeout|for \d+ seconds",
    "a default": r"defaults?|CODE|is set|held to",
    "an assumption": r"say|suppose[sd]?|assum\w+|stand-in|example|simulated|with a model that",
    "a publication": r"published|paper'?s?|list price",
}
"""Kinds of sentences whose numbers were chosen, not measured, by what they say."""
_IS_SET: Final = re.compile(rf"\b(?:{'|'.join(_SETS.values())})", re.IGNORECASE)


def prose_numbers(page: str) -> list[str]:
    """Return the sentences of a Markdown page that state a measured number outside of what reports fill.

    Those are sentences with a quantity that neither set a limit, deadline or default nor link to where it was
    published, and sentences that compare and have any number with a fraction.
    """
    text = _CODE.sub("CODE", _BENCH.sub("measured", _FROM_REPORTS.sub("", page)))
    text = _VERSION.sub("", _LINK.sub("]", _SOURCE.sub("] SOURCE", text)))
    sentences = (" ".join(each.split()) for each in _SENTENCES.split(text))
    return [each for each in sentences if _states_measurement(each)]


def _states_measurement(sentence: str) -> bool:
    if "SOURCE" in sentence:
        return False
    if _MEASURES.search(sentence):
        return bool(_QUANTITY.search(sentence) or _FRACTION.search(sentence))
    return bool(_QUANTITY.search(sentence)) and not _IS_SET.search(sentence)
