import dataclasses
import io

from rich.console import Console

from agentrt.examples.assistant.comparison import Comparison, Run, Turn
from agentrt.examples.assistant.guesses import Guesses
from agentrt.examples.assistant.summary import introduce, summarize

PLAIN = Run(
    turns=(
        Turn("Weather in [Oslo]?", "call get_weather\nai It rains.", 1.0, 2, 0.4, 0.5, Guesses()),
        Turn("Hello!", "ai Hi!", 0.25, 1, 0.24, 0.0, Guesses()),
    ),
    digest={"m1": "about the roof"},
    index={"a.txt": "about a", "b.txt": "about b"},
    tokens_per_second=123.4,
)
FASTER = dataclasses.replace(
    PLAIN,
    turns=(
        dataclasses.replace(PLAIN.turns[0], seconds=0.7, guesses=Guesses(hits=2, misses=1, wasted=1)),
        dataclasses.replace(PLAIN.turns[1], seconds=0.26),
    ),
)


def printed(comparison: Comparison) -> str:
    console = Console(file=io.StringIO(), width=120, record=True)
    summarize(comparison, console)
    return console.export_text()


def test_it_says_per_request_what_was_saved() -> None:
    lines = printed(Comparison(PLAIN, FASTER)).splitlines()
    oslo = next(line for line in lines if "Weather in [Oslo]?" in line)
    assert oslo.split()[3:] == ["0.40", "0.50", "1.00", "0.70", "+0.30", "2", "1", "1"]
    hello = next(line for line in lines if "Hello!" in line)
    assert hello.split()[1:] == ["0.24", "0.00", "0.25", "0.26", "-0.01"]
    total = next(line for line in lines if line.split()[:1] == ["all"])
    assert total.split()[1:] == ["0.64", "0.50", "1.25", "0.96", "+0.29", "2", "1", "1"]
    assert "Speculation saved 0.29 of 1.25 s: 23%." in lines
    assert "This model takes 0.21 s per answer or call" in " ".join(" ".join(lines).split())
    assert "Both runs said the same, word for word." in lines
    assert any("1 new mails were digested and 2 files indexed" in line for line in lines)
    assert any("123 tokens per second" in line for line in lines)


def test_it_admits_that_nothing_was_saved() -> None:
    assert "Speculation saved nothing here: the speculative run took 0.29 s longer." in printed(
        Comparison(FASTER, PLAIN)
    )


def test_it_shows_where_the_runs_differ() -> None:
    other = dataclasses.replace(PLAIN.turns[0], transcript="call get_weather\nai It snows.")
    comparison = Comparison(PLAIN, dataclasses.replace(PLAIN, turns=(other, PLAIN.turns[1])))
    assert "-ai It rains." in comparison.differences()
    text = printed(comparison)
    assert "The two runs did not say the same." in text
    assert "+ai It snows." in text
    assert "Both runs said the same" not in text


def test_background_answers_count_as_said() -> None:
    changed = Comparison(PLAIN, dataclasses.replace(PLAIN, index={"a.txt": "about a", "b.txt": "about c"}))
    assert "+b.txt about c" in changed.differences()
    assert Comparison(PLAIN, FASTER).differences() == ""


def test_the_introduction_says_what_is_made_up() -> None:
    console = Console(file=io.StringIO(), width=1000, record=True)
    introduce("nano", 0.4, console)
    introduce("models/[qwen]", 0.4, console)
    nano, other = console.export_text().splitlines()
    assert "demonstration model" in nano
    assert "waits 0.40 s" in nano
    assert "Its model is models/[qwen];" in other
    assert "demonstration model" not in other
