"""Optional parameters of tools, and how a request mentions one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

LANGUAGES = [
    "French",
    "German",
    "Spanish",
    "Italian",
    "Dutch",
    "Polish",
    "Czech",
    "Danish",
    "Swedish",
    "Finnish",
    "Greek",
    "Turkish",
    "Arabic",
    "Hindi",
    "Japanese",
    "Chinese",
    "Korean",
    "Portuguese",
    "Slovenian",
    "Latin",
]


class Option(NamedTuple):
    """An optional parameter: its schema type, what a request may add, and the values it may have."""

    type: str
    mentions: str
    """A request line's end, with ``{option}`` for the value."""
    values: tuple[str, ...]


_COUNTS = tuple(str(count) for count in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 50, 100))
_COUNT = Option(
    "integer",
    "[, at most {option}|, only {option}|, limit {option}|, no more than {option}|, show {option}| ({option} at most)|, max {option}|, up to {option}|, {option} of them]",
    _COUNTS,
)
_LANGUAGE = Option("string", "[ in {option}|, in {option}|, answer in {option}]", tuple(LANGUAGES))
_FORMAT = Option(
    "json|csv|pdf|text|html",
    "[ as {option}|, as {option}| in {option} format|, format {option}]",
    ("json", "csv", "pdf", "text", "html"),
)
_SCALE = Option(
    "celsius|fahrenheit", "[ in {option}|, in {option}|, {option}| ({option})]", ("celsius", "fahrenheit")
)
_SYSTEM = Option(
    "metric|imperial", "[, {option}|, {option} units| in {option} units| ({option})]", ("metric", "imperial")
)
_PAGE = Option("integer", "[, page {option}| (page {option})]", _COUNTS)
_DETAIL = Option(
    "low|medium|high",
    "[, {option} detail| with {option} detail|, detail {option}]",
    ("low", "medium", "high"),
)

OPTIONS: Mapping[str, Option] = {
    "limit": _COUNT, "max_results": _COUNT, "count": _COUNT, "top_k": _COUNT, "n": _COUNT, "maximum": _COUNT,
    "language": _LANGUAGE, "lang": _LANGUAGE,
    "format": _FORMAT, "output_format": _FORMAT,
    "page": _PAGE, "detail": _DETAIL, "level_of_detail": _DETAIL,
}  # fmt: skip
WEATHER_OPTIONS: Mapping[str, Option] = {
    "unit": _SCALE, "scale": _SCALE, "temperature_unit": _SCALE, "units": _SYSTEM, "unit_system": _SYSTEM,
}  # fmt: skip


def option(name: str) -> Option:
    """The option that goes by ``name``."""
    return OPTIONS[name] if name in OPTIONS else WEATHER_OPTIONS[name]


def draw_optional(rng: Random, taken: set[str], *, weather: bool) -> tuple[tuple[str, str], ...]:
    """One or two optional parameters, as names and schema types, none of them in ``taken``."""
    names = sorted({*OPTIONS, *(WEATHER_OPTIONS if weather else ())} - taken)
    if weather and rng.random() < 0.6:
        names = sorted(WEATHER_OPTIONS)
    chosen = dict.fromkeys(rng.choice(names) for _ in range(rng.choice([1, 1, 1, 2])))
    return tuple((name, option(name).type) for name in chosen)
