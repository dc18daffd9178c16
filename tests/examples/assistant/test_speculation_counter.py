from agentrt.examples.assistant.speculation_counter import SpeculationCounter, SpeculationCounts
from agentrt.reports import (
    AheadKept,
    AheadStarted,
    AheadWasted,
    CallClaimed,
    CallMissed,
    DraftArrived,
    SpeculationStarted,
    SpeculationWasted,
)


class Recorder:
    def __init__(self) -> None:
        self.tools: list[str] = []

    def speculation(self, tool: str) -> None:
        self.tools.append(tool)

    def ahead(self) -> None:
        self.tools.append("a request ahead")


def test_events_are_counted_until_they_are_taken() -> None:
    view = Recorder()
    counter = SpeculationCounter(view)
    counter.on_event(DraftArrived(1, "local", "read_note", 0.1))
    counter.on_event(SpeculationStarted(1, "read_note"))
    counter.on_event(CallClaimed(1, "read_note", tool_s=1.0, waited_s=0.25, draft_s=0.1))
    counter.on_event(CallMissed(2, "read_mail", 0.2, "not predicted"))
    counter.on_event(SpeculationWasted(2, "read_file", 0.1, "not asked for"))
    counter.on_event(SpeculationWasted(2, "read_note", 0.1, "not asked for"))
    counter.on_event(AheadStarted(3))
    counter.on_event(AheadKept(3, 0.5))
    counter.on_event(AheadWasted(4, 0.5, "the next request was another one"))
    assert counter.take() == SpeculationCounts(1, 1, 2, hidden_s=0.75, ahead_kept=1, ahead_wasted=1)
    assert counter.take() == SpeculationCounts()
    assert view.tools == ["read_note", "a request ahead"]
