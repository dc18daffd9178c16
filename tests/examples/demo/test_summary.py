import dataclasses
import io

from rich.console import Console

from agentrt.examples.assistant.speculation_counter import SpeculationCounts
from agentrt.examples.demo.comparison import Comparison, Turn
from agentrt.examples.demo.summary import introduce, summarize

PLAIN = (
    Turn("Weather in [Oslo]?", "call get_weather\nai It rains.", 1.0, 2, 0.4, 0.5, 1, SpeculationCounts()),
    Turn("Hello!", "ai Hi!", 0.25, 1, 0.24, 0.0, 0, SpeculationCounts()),
)
FASTER = (
    dataclasses.replace(
        PLAIN[0], seconds=0.7, counts=SpeculationCounts(hits=2, misses=1, wasted=4, hidden_s=0.2)
    ),
    dataclasses.replace(PLAIN[1], seconds=0.26),
)


def compared(plain: tuple[Turn, ...], speculative: tuple[Turn, ...]) -> Comparison:
    digest, index = {"m1": "about the roof"}, {"a": "about a", "b": "about b"}
    return Comparison(plain, speculative, digest, index, 123.4, exact=True)


def printed(comparison: Comparison) -> list[str]:
    console = Console(file=io.StringIO(), width=1000, record=True)
    summarize(comparison, console)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_it_says_per_request_what_was_saved() -> None:
    lines = printed(compared(PLAIN, FASTER))
    rows = {line.split("  ")[1]: line.split()[-8:] for line in lines if line.startswith("  ")}
    assert rows["Weather in [Oslo]?"] == ["0.40", "0.50", "1.00", "0.70", "+0.30", "0.20", "2", "1"]
    assert rows["Hello!"][-6:] == ["0.24", "0.00", "0.25", "0.26", "-0.01", "0.00"]
    assert rows["all"] == ["0.64", "0.50", "1.25", "0.96", "+0.29", "0.20", "2", "1"]


def test_it_says_in_words_what_was_saved_and_why() -> None:
    text = "\n".join(printed(compared(PLAIN, FASTER)))
    assert "waited 1.25 s for the plain agent and 0.96 s for the speculative one: 0.29 s (23%) less." in text
    assert "Claimed speculations hid 0.20 of the tools' 0.50 s;" in text
    assert "4 speculative runs were wasted." in text
    assert "This one takes 0.21 s per call or answer;" in text
    assert "1 new mails were digested and 2 files indexed. The model wrote 123 tokens per second" in text
    assert "Both agents said and did the same, word for word." in text


def test_it_admits_that_nothing_was_saved() -> None:
    text = "\n".join(printed(compared(FASTER, PLAIN)))
    assert "waited 0.96 s for the plain agent and 1.25 s for the speculative one: 0.29 s (30%) more." in text
    assert "Claimed speculations hid 0.00 of" in text


def test_it_shows_where_the_agents_differ() -> None:
    other = dataclasses.replace(PLAIN[0], transcript="call get_weather\nai It snows.")
    comparison = compared(PLAIN, (other, PLAIN[1]))
    assert "-ai It rains." in comparison.differences()
    text = "\n".join(printed(comparison))
    assert "The two agents did not say the same." in text
    assert "+ai It snows." in text
    assert "word for word" not in text
    assert compared(PLAIN, FASTER).differences() == ""


def test_in_low_precision_a_difference_is_no_fault() -> None:
    other = dataclasses.replace(PLAIN[0], transcript="call get_weather\nai It snows.")
    comparison = dataclasses.replace(compared(PLAIN, (other, PLAIN[1])), exact=False)
    text = "\n".join(printed(comparison))
    assert "fault of agentrt" not in text
    assert "the model's own precision" in text
    assert "+ai It snows." in text


def test_a_model_that_calls_no_tool_is_a_failure() -> None:
    assert compared(PLAIN, FASTER).tools_ran
    silent = tuple(dataclasses.replace(turn, tool_calls=0) for turn in PLAIN)
    comparison = compared(silent, silent)
    assert not comparison.tools_ran
    assert "The model called no tool" in "\n".join(printed(comparison))


def test_the_introduction_says_what_is_made_up() -> None:
    console = Console(file=io.StringIO(), width=1000, record=True)
    introduce("nano", 0.4, 50.0, console)
    introduce("models/[qwen]", 0.4, 0.0, console)
    nano, other = console.export_text().splitlines()
    assert "demonstration model" in nano
    assert "waits 0.40 s" in nano
    assert "held to 50," in nano
    assert "Its model is models/[qwen];" in other
    assert "demonstration model" not in other
    assert "held to" not in other
