"""Which sentences of a page state a measured number."""

from __future__ import annotations

import pytest

from agentrt.bench.documentation.prose import prose_numbers


@pytest.mark.parametrize(
    "sentence",
    [
        "The planner then took 5.3 s without it.",
        "A process needs nearly 400 MB beside the weights.",
        "It decodes 2 % faster.",
        "Its time was 40.5 times ours.",
        "Decode is 0.85 of that server's.",
        "With a limit of 8 MiB it is 1.3 times as fast.",
        "`agentrt bench engine`: decode is 0.98.",
        "The ratio is 1.01 (by hand on 2026-11-23).",
        "The answer ends after 1.16 s.",
        "The paper's figure is 1.6, measured here 1.4.",
    ],
)
def test_a_measured_number_is_found_between_other_sentences(sentence: str) -> None:
    page = f"# A page\n\nIt has at most 16 apps. {sentence} The next one\nsays nothing.\n"
    (found,) = prose_numbers(page)
    assert found.split()[-1] == sentence.split()[-1]


@pytest.mark.parametrize(
    "sentence",
    [
        "Kernels take at most 25 ms (`quantum_s`, up to 0.1 s).",
        "It is kept for an hour: `keep_alive` (300 s).",
        "- **Heads**: 32 KiB (431) and 10 seconds (408).",
        "A stand-in takes 0.3 seconds for each answer.",
        "With version 3.11 of Python it was tried.",
        "[Their log](https://example.org/log) says 84 to 104 ms.",
        "Sets of 16 prompts and 2,048 tokens.",
        "<!-- measured engine\nratio\n-->\nIt is 2 % faster.\n<!-- /measured -->",
        "It is <!-- figure engine ratio -->1.05 (1.01 to 1.09)<!-- / --> times as fast as theirs.",
        "```text\nit took 5.3 s\n```",
    ],
)
def test_limits_settings_publications_and_what_reports_fill_may_stand(sentence: str) -> None:
    assert prose_numbers(f"Before.\n\n{sentence}\n\nAfter.\n") == []
