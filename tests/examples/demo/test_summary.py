import dataclasses
import io

from rich.console import Console

from agentrt.examples.assistant.services import Latencies
from agentrt.examples.demo.background import Waits
from agentrt.examples.demo.comparison import Comparison, Turn
from agentrt.examples.demo.measures import SpeculationCounts
from agentrt.examples.demo.run import Result
from agentrt.examples.demo.summary import conclude, introduce, introduce_briefly, summarize

PLAIN = (
    Turn("Weather in [Oslo]?", "call get_weather\nai It rains.", 1.0, 0.4, 0.5, 1, SpeculationCounts()),
    Turn("Hello!", "ai Hi!", 0.25, 0.24, 0.0, 0, SpeculationCounts()),
)
COUNTS = SpeculationCounts(hits=2, misses=1, wasted=4, hidden_s=0.2, ahead_kept=3, ahead_wasted=1)
FASTER = (
    dataclasses.replace(PLAIN[0], seconds=0.7, counts=COUNTS),
    dataclasses.replace(PLAIN[1], seconds=0.26),
)
OTHER = dataclasses.replace(PLAIN[0], transcript="call get_weather\nai It snows.")


def measured(plain: tuple[Turn, ...], speculative: tuple[Turn, ...], *, exact: bool = True) -> Result:
    comparison = Comparison(plain, speculative, exact)
    return Result(comparison, Waits((0.3, 0.1, 0.2), 40, 2.0), Waits((0.01, 0.02, 0.03), 36, 2.0))


def printed(result: Result) -> list[str]:
    console = Console(file=io.StringIO(), width=1000, record=True)
    summarize(result, console)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_it_says_per_request_what_was_saved() -> None:
    lines = printed(measured(PLAIN, FASTER))
    rows = {line.split("  ")[1]: line.split()[-8:] for line in lines if line.startswith("  ")}
    assert rows["Weather in [Oslo]?"] == ["0.40", "0.50", "1.00", "0.70", "+0.30", "2", "1", "3"]
    assert rows["Hello!"][-5:] == ["0.24", "0.00", "0.25", "0.26", "-0.01"]
    assert rows["all"] == ["0.64", "0.50", "1.25", "0.96", "+0.29", "2", "1", "3"]


def test_it_ends_with_three_numbers_and_their_meaning() -> None:
    numbers = [line.split("  ", 1) for line in map(str.strip, printed(measured(PLAIN, FASTER))[-3:])]
    assert numbers == [
        ["23 %", "less waiting: 1.0 s instead of 1.2 s for the same 2 requests."],
        [
            "10 x",
            "sooner the first token while digests are written in the background: 20 ms instead of 200 ms in "
            "order of arrival.",
        ],
        [
            "0",
            "differences in what the two agents said and did. The price: 4 of 6 tool runs and 1 of 4 "
            "requests ahead were wasted.",
        ],
    ]


def test_it_admits_that_nothing_was_saved() -> None:
    text = "\n".join(printed(measured(FASTER, PLAIN)))
    assert "30 %  more waiting: 1.2 s instead of 1.0 s" in text


def last_line(result: Result) -> str:
    console = Console(file=io.StringIO(), width=1000, record=True)
    conclude(result.comparison, console)
    return console.export_text().splitlines()[-1]


def test_in_the_panes_the_last_line_has_the_seconds_of_both() -> None:
    assert last_line(measured(PLAIN, FASTER)) == "The same answers in 1.0 s instead of 1.2 s."
    nothing = "Nothing gained: the same answers in 1.2 s instead of 1.0 s."
    assert last_line(measured(FASTER, PLAIN)) == nothing
    assert last_line(measured(PLAIN, PLAIN)).startswith("Nothing gained: ")
    other = measured(PLAIN, (dataclasses.replace(OTHER, seconds=0.7), PLAIN[1]), exact=False)
    assert last_line(other) == (
        "2 answers, 1 of them different (--verbose shows how), in 0.9 s instead of 1.2 s."
    )


def test_the_panes_end_with_what_went_wrong() -> None:
    console = Console(file=io.StringIO(), width=1000, record=True)
    conclude(measured(PLAIN, (OTHER, PLAIN[1])).comparison, console)
    silent = tuple(dataclasses.replace(turn, tool_calls=0) for turn in PLAIN)
    conclude(measured(silent, silent).comparison, console)
    text = console.export_text()
    assert "That is a fault of agentrt" in text
    assert "+ai It snows." in text
    assert "The model called no tool" in text


def test_it_shows_and_counts_where_the_agents_differ() -> None:
    result = measured(PLAIN, (OTHER, PLAIN[1]))
    assert "-ai It rains." in result.comparison.differences()
    assert result.comparison.different == ("Weather in [Oslo]?",)
    text = "\n".join(printed(result))
    assert "That is a fault of agentrt" in text
    assert "+ai It snows." in text
    assert "1  differences in what" in text
    assert measured(PLAIN, FASTER).comparison.differences() == ""


def test_in_low_precision_a_difference_is_no_fault() -> None:
    text = "\n".join(printed(measured(PLAIN, (OTHER, PLAIN[1]), exact=False)))
    assert "fault of agentrt" not in text
    assert "the model's own precision" in text
    assert "+ai It snows." in text


def test_a_model_that_calls_no_tool_is_a_failure() -> None:
    assert measured(PLAIN, FASTER).comparison.tools_ran
    silent = tuple(dataclasses.replace(turn, tool_calls=0) for turn in PLAIN)
    result = measured(silent, silent)
    assert not result.comparison.tools_ran
    assert "The model called no tool" in "\n".join(printed(result))


def test_the_figures_of_the_report() -> None:
    figures = measured(PLAIN, FASTER).figures()
    assert figures["waiting_saved_pct"] == 100 * (1 - 0.96 / 1.25)
    assert figures["transcripts_equal"] == 1
    assert round(figures["reactive_ttft_ratio_vs_fcfs"], 6) == 10
    assert (figures["speculations_wasted"], figures["ahead_wasted"]) == (4, 1)
    assert measured(PLAIN, (OTHER, PLAIN[1])).figures()["transcripts_equal"] == 0
    assert measured(FASTER, PLAIN).figures()["waiting_saved_pct"] < 0


def test_the_introduction_says_what_is_made_up() -> None:
    console = Console(file=io.StringIO(), width=2000, record=True)
    introduce("nano", Latencies(), 50.0, console)
    introduce("models/[qwen]", Latencies().times(2), 0.0, console)
    text = console.export_text()
    nano, other = text[: text.index("models/[qwen]")], text[text.index("models/[qwen]") :]
    assert "demonstration model" in nano
    assert "an IMAP command takes 85 ms, the weather 360 ms and a web page 800 ms" in nano
    assert "held to 50 tokens per second" in nano
    assert "takes 170 ms" in other
    assert "one after the other" in other
    assert "held to" not in other


def test_a_line_before_the_panes_says_what_is_made_up() -> None:
    console = Console(file=io.StringIO(), width=2000, record=True)
    introduce_briefly(50.0, console)
    introduce_briefly(0.0, console)
    nano, other = console.export_text().splitlines()
    assert "imitated, and the model is slowed down to 50 tokens per second" in nano
    assert "imitated; --verbose" in other


def test_escape_sequences_of_models_and_tools_are_shown() -> None:
    escapes = "\x1b[2J\x9b31m\u202e"
    said = dataclasses.replace(PLAIN[0], request=f"Read {escapes}", transcript=f"ai {escapes}")
    console = Console(file=(file := io.StringIO()), width=200)
    summarize(measured((said,), (dataclasses.replace(said, transcript="ai Hi!"),)), console)
    assert "\u241b[2J" in file.getvalue()
    assert not {"\x1b", "\x9b", "\u202e"} & set(file.getvalue())


def test_requests_that_the_model_did_not_answer_are_counted_and_said() -> None:
    unanswered = dataclasses.replace(PLAIN[0], answered=False)
    result = measured((unanswered, PLAIN[1]), FASTER)
    assert result.figures()["requests_unanswered"] == 1
    said = " ".join(printed(result))
    assert "did not answer 1 of 2 requests: it wrote calls only" in said
    assert "agentrt pull" in said
    assert "did not answer" not in " ".join(printed(measured(PLAIN, FASTER)))
