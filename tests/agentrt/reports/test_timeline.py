"""The timeline shows what happened when, as a picture that no text in it can change."""

from __future__ import annotations

import asyncio
import math
import os
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from agentrt import SpeculationConfig, SpeculationReport
from agentrt.cli.timeline import read_timeline
from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.reports import Recording, Timeline
from agentrt.reports.events import AheadKept, AheadStarted, AheadWasted, TurnAnswered, TurnStarted
from agentrt.reports.recording import RecordedAnswer, RecordedCall
from agentrt.reports.reporter import Reporter
from agentrt.reports.timeline import Span, TimedTurn
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.agentrt.turns.sessions import call, drafting, drive, slow_tool
from tests.house.project import ROOT

SVG = "{http://www.w3.org/2000/svg}"
SCALE = 750  # pixels of the plot, which begins at 150


def shapes(timeline: Timeline, kind: str) -> list[tuple[float, float, float]]:
    """Return left, right and top of the bars of a kind, in pixels, without those of the legend."""
    bars = ET.fromstring(timeline.svg()).iter(f"{SVG}rect")
    return [
        (float(bar.attrib["x"]), float(bar.attrib["x"]) + float(bar.attrib["width"]), float(bar.attrib["y"]))
        for bar in bars
        if bar.get("class") == kind and bar.find(f"{SVG}title") is not None
    ]


def seconds(timeline: Timeline, kind: str, of: float) -> list[tuple[float, float]]:
    """Return the bars of a kind in seconds, in a picture ``of`` so many of them."""
    return [
        (round((left - 150) * of / SCALE, 2), round((right - 150) * of / SCALE, 2))
        for left, right, _ in shapes(timeline, kind)
    ]


def texts(timeline: Timeline) -> list[str]:
    return [text.text or "" for text in ET.fromstring(timeline.svg()).iter(f"{SVG}text")]


def two_turns(mode: Literal["on", "off"], title: str = "") -> Timeline:
    """Turns of 4 s with a tool of 3 s: the first draft is right, the second wrong."""
    predictor = ScriptedSpeculator([call("a")], [call("x")], delay=0.5)
    turns = [call("a", "call_a")], [call("b", "call_b")]
    config = SpeculationConfig(mode=mode)
    driven = drive(slow_tool(3, []), predictor, *turns, generation_s=4, config=config)
    return driven.report.timeline(title)


def test_a_plain_run() -> None:
    plain = two_turns("off")
    assert seconds(plain, "model", of=14) == [(0, 4), (7, 11)]
    assert seconds(plain, "tool", of=14) == [(4, 7), (11, 14)]
    assert not [*shapes(plain, "claimed"), *shapes(plain, "wasted")]
    assert texts(plain)[0] == "took 14.00 s, model 8.00 s, waiting for tools 6.00 s"


def test_a_speculating_run_links_claims_and_shows_waste() -> None:
    drawn = two_turns("on", "mine")
    assert seconds(drawn, "model", of=11) == [(0, 4), (4, 8)]
    assert seconds(drawn, "claimed", of=11) == [(0.5, 3.5)]
    assert seconds(drawn, "wasted", of=11) == [(4.5, 7.5)]
    assert seconds(drawn, "tool", of=11) == [(8, 11)]
    root = ET.fromstring(drawn.svg())
    (link,) = (path.attrib["d"] for path in root.iter(f"{SVG}path") if path.get("class") == "link")
    assert link.startswith(f"M{150 + 3.5 / 11 * SCALE:.1f} ")
    assert f"H{150 + 4 / 11 * SCALE:.1f}V" in link
    (circle,) = root.iter(f"{SVG}circle")
    assert circle.attrib["cx"] == f"{150 + 4 / 11 * SCALE:.1f}"
    drafts = [path for path in root.iter(f"{SVG}path") if path.get("class") == "draft"]
    assert len(drafts) == 2 + 1  # and that of the legend
    assert texts(drawn)[0] == (
        "mine: took 11.00 s, model 8.00 s, waiting for tools 3.00 s, 1 wasted (3.00 s), "
        "plain would have taken 14.00 s"
    )


def test_a_call_waits_for_the_rest_of_its_run() -> None:
    driven = drive(slow_tool(3, []), drafting(call("a"), delay=3), [call("a")], generation_s=4)
    drawn = driven.report.timeline()
    assert seconds(drawn, "claimed", of=6) == [(3, 4)]
    assert seconds(drawn, "tool", of=6) == [(4, 6)]


def test_a_call_at_the_end_of_the_picture_is_linked() -> None:
    claimed = Span("claimed", 1, 2, "look", called_s=4)
    drawn = Timeline.of_turns([TimedTurn((Span("model", 0, 4), claimed))]).svg()
    assert [circle.attrib["cx"] for circle in ET.fromstring(drawn).iter(f"{SVG}circle")] == ["900.0"]


def test_plain_above_speculating_has_one_axis() -> None:
    plain = two_turns("off", "plain")
    both = plain.above(two_turns("on", "speculating"))
    assert seconds(both, "model", of=14) == [(0, 4), (7, 11), (0, 4), (4, 8)]
    tops = [top for _, _, top in shapes(both, "model")]
    assert tops[0] == tops[1] < tops[2] == tops[3]
    assert "14.00 s" in texts(both)
    assert "11.00 s" in texts(both)
    assert "would have" not in both.svg()  # the plain run is there


def test_requests_sent_ahead() -> None:
    reporter = Reporter(turns_kept=10)
    for event in (
        TurnStarted(1, at_s=100),
        TurnStarted(2, at_s=101),
        TurnStarted(3, at_s=101),
        AheadStarted(2, at_s=102),
        AheadStarted(3, at_s=102),
        TurnAnswered(1, 4, (), at_s=104),
        AheadKept(2, 2, at_s=104),
        AheadWasted(3, 2, "another request", at_s=104),
        TurnAnswered(2, 6, (), at_s=110),
    ):
        reporter.note(event)
    drawn = reporter.report().timeline()
    assert seconds(drawn, "ahead", of=8) == [(2, 4)]
    assert seconds(drawn, "model", of=8) == [(0, 4), (4, 8)]
    assert seconds(drawn, "wasted", of=8) == [(2, 4)]


def test_events_say_when_they_happened_and_are_equal_at_any_time() -> None:
    async def later() -> TurnStarted:
        await asyncio.sleep(5)
        return TurnStarted(1)

    assert run_in_virtual_time(later).at_s == 5
    assert run_in_virtual_time(later) == TurnStarted(1, at_s=1)


HOSTILE = '</title><script>alert("x")</script>&\x00\x1b[31m\u202e\ud800\uffff'


def test_names_are_text() -> None:
    turns = [TimedTurn((Span("model", 0, 1), Span("wasted", 0, 1, HOSTILE, HOSTILE)))]
    drawn = Timeline.of_turns(turns, HOSTILE).svg()
    root = ET.fromstring(drawn)
    assert not list(root.iter(f"{SVG}script"))
    assert not set("\x00\x1b\u202e\ud800\uffff") & set(drawn)
    assert any((title.text or "").startswith("</title><script>") for title in root.iter(f"{SVG}title"))
    drawn.encode()


@pytest.mark.parametrize("timeline", [Timeline(), SpeculationReport().timeline("nothing")])
def test_nothing_to_show(timeline: Timeline) -> None:
    assert not shapes(timeline, "model")
    assert ET.fromstring(timeline.svg()).find(f"{SVG}title") is not None


@pytest.mark.parametrize("seconds", [5e-324, 1e-7, 1e-3, 1e9, 1e300])
def test_any_length_has_a_picture(seconds: float) -> None:
    ET.fromstring(Timeline.of_turns([TimedTurn((Span("model", 0, seconds),))]).svg())


@pytest.mark.parametrize("start_s", [math.nan, -math.inf, -1e308])
def test_times_that_are_no_numbers_are_refused(start_s: float) -> None:
    with pytest.raises(InvalidRequestError, match="no numbers"):
        Timeline.of_turns([TimedTurn((Span("model", start_s, 1e308),))])


def test_hundreds_of_turns_wrap_and_are_bounded() -> None:
    def turns(count: int) -> list[TimedTurn]:
        return [
            TimedTurn(
                (Span("model", 2.0 * at, 2.0 * at + 1), Span("tool", 2.0 * at + 1, 2.0 * at + 2, f"t{at}"))
            )
            for at in range(count)
        ]

    drawn = Timeline.of_turns(turns(100))
    assert len(shapes(drawn, "model")) >= 100
    rows = {top for _, _, top in shapes(drawn, "model")}
    assert len(rows) == 3
    assert min(right - left for left, right, _ in shapes(drawn, "model")) > 2
    lanes = Counter(texts(drawn))
    assert lanes["t7"] == lanes["92 other tools"] == 3
    most = Timeline.of_turns(turns(5_000), "long").svg()
    assert "long (the last 320 turns of 5000): took 640.00 s" in most
    assert len(most) < 200_000


def test_spans_too_narrow_to_be_told_apart_are_one() -> None:
    ticks = [Span("draft", at / 1000, at / 1000) for at in range(1000)]
    calls = [Span("tool", at / 1000, at / 1000 + 0.0005, "look") for at in range(1000)]
    drawn = Timeline.of_turns([TimedTurn((Span("model", 0, 1000), *ticks, *calls))])
    assert len(shapes(drawn, "tool")) == 1
    assert "look: several" in drawn.svg()


def test_runs_that_overlap_lie_below_each_other() -> None:
    spans = [Span("wasted", at, at + 2, "look") for at in (0, 1, 2)]
    drawn = Timeline.of_turns([TimedTurn((Span("model", 0, 4), *spans))])
    assert drawn._repr_html_() == drawn.svg()
    first, second, third = (top for _, _, top in shapes(drawn, "wasted"))
    assert first == third < second


def recording(**times: Any) -> Recording:
    made = RecordedCall(id="1", name="look", arguments={}, seconds=2, **times)
    return Recording(turns=(RecordedAnswer(messages=(), answer={}, calls=(made,), seconds=1, started_s=5),))


def test_a_recording_has_a_timeline_if_it_has_times() -> None:
    drawn = recording(started_s=6).timeline()
    assert (seconds(drawn, "model", of=3), seconds(drawn, "tool", of=3)) == ([(0, 1)], [(1, 3)])
    with pytest.raises(InvalidRequestError, match="Record the run while it happens"):
        recording().timeline()


def test_the_picture_of_the_readme_is_drawn_from_its_reports() -> None:
    folder = ROOT / "docs" / "figures" / "one-run"
    plain, speculating = (
        read_timeline(folder / f"{title}.json", title) for title in ("plain", "speculating")
    )
    drawn = (folder / "timeline.svg").read_text(encoding="utf-8")
    assert plain.above(speculating).svg() == drawn, "draw it again: docs/speculation-figures.md"
    assert len(drawn) <= 40_000


def test_a_path_may_be_a_text(tmp_path: Path) -> None:
    report = SpeculationReport()
    report.save(str(tmp_path / "report.json"))
    report.timeline().save(str(tmp_path / "report.svg"))
    assert read_timeline(tmp_path / "report.json", "").svg() == (tmp_path / "report.svg").read_text("utf-8")


def test_a_file_that_may_never_end_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(ConfigurationError, match="no regular file"):
            read_timeline(path, "")
