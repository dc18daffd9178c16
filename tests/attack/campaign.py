"""What a part of the campaign has tried, what it has measured, and the problems that it has found."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from agentrt.bench.common.estimates import Estimate
from agentrt.bench.common.report import Cell, Table
from tests.attack.server_process import Resources, ServerProcess
from tests.attack.wire import Answer, Request
from tests.documented_errors import is_error_of_messages

COUNTS = (
    "tries",
    "server_errors_5xx",
    "untyped_errors",
    "broken_promises",
    "faults_logged",
    "others_failed",
    "descriptors_leaked",
    "blocks_leaked",
)
"""The figures that every part adds to; all but the tries should be 0."""
LIMIT_S = 0.1
"""The longest wait of another client that is not a freeze."""
_FIELDS = {"message", "type", "param", "code"}
_TYPES = {"invalid_request_error", "rate_limit_error", "insufficient_quota", "server_error"}
_MESSAGES_PATH = "/v1/messages"
_MOST_PROBLEMS = 50
_SHOWN_BYTES = 300
_SETTLE_S = 20.0
T = TypeVar("T")


@dataclass
class Campaign:
    """Counts, figures, tables and problems; ``full`` says whether all is tried, or little."""

    full: bool
    counts: Counter[str] = field(default_factory=Counter)
    figures: dict[str, float] = field(default_factory=dict)
    estimates: dict[str, Estimate] = field(default_factory=dict)
    """Figures with an interval."""
    tables: list[Table] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """What was tried and what was wrong, of the first problems."""
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How many answers had which status, by the name of the request."""

    def size(self, full: T, quick: T) -> T:
        """Return how much to try."""
        return full if self.full else quick

    def add_table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        self.tables.append(Table(title=title, columns=tuple(columns), rows=tuple(map(tuple, rows))))

    def fail(self, name: str, problem: str, figure: str = "broken_promises", number: int = 1) -> None:
        """Count a problem and keep it, unless there are too many."""
        self.counts[figure] += number
        self.note(name, problem)

    def note(self, name: str, problem: str) -> None:
        """Keep a problem that is not a failure: on a busy machine a wait may be the machine's."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append((name, problem))

    def add(self, request: Request, answer: Answer, expected: Collection[int] = ()) -> None:
        """Count a try; a status in ``expected`` is not a server error."""
        self.counts["tries"] += 1
        self.statuses[request.name, answer.status] += 1
        shown = f"{answer.status} {answer.body[:_SHOWN_BYTES]!r} to {request.body[:_SHOWN_BYTES]!r}"
        if answer.status >= 500 and answer.status not in expected:
            self.fail(request.name, shown, "server_errors_5xx")
        if not is_typed(answer, request.method, request.path):
            self.fail(request.name, f"no documented error: {shown}", "untyped_errors")

    def add_faults(self, server: ServerProcess) -> None:
        """Count the lines of a server's log that tell of crashes, and its end."""
        ended = [] if server.process.poll() is None else ["the server has ended"]
        for line in [*server.faults(), *ended]:
            self.fail("the server's log", line, "faults_logged")

    def add_leaks(self, server: ServerProcess, before: Resources, name: str) -> None:
        """Count the descriptors and KV blocks that a server still holds, after time to let go of them."""
        if descriptors := held_at_last(lambda: server.resources().descriptors - before.descriptors):
            self.fail(name, f"{descriptors} descriptors are held still", "descriptors_leaked", descriptors)
        if blocks := held_at_last(server.used_blocks):
            self.fail(name, f"{blocks} KV blocks are held still", "blocks_leaked", blocks)

    def freeze(self, name: str, seconds: float) -> None:
        """Take how long another client waited during a try."""
        longest = max(self.figures.get("longest_freeze_ms", 0.0), round(1000 * seconds, 1))
        self.figures["longest_freeze_ms"] = longest
        if seconds > LIMIT_S:
            self.note(name, f"another client waited {1000 * seconds:.0f} ms")


def held_at_last(held: Callable[[], int], within_s: float = _SETTLE_S) -> int:
    """Return what is ``held`` once it is nothing, or at the latest after ``within_s``."""
    end = time.monotonic() + within_s
    while (number := held()) > 0 and time.monotonic() < end:
        time.sleep(0.1)
    return max(0, number)


def is_typed(answer: Answer, method: str = "POST", path: str = "/v1") -> bool:
    """Return whether an answer is not an error, or has an error of the documented form.

    Below ``/api/`` that is Ollama's, of messages Anthropic's, elsewhere OpenAI's.
    """
    if answer.status == 0:
        return False
    if answer.content_type == "text/event-stream":
        events = [event for event in answer.events() if isinstance(event, dict) and "error" in event]
        if _is_of_messages(path):
            return all(map(is_error_of_messages, events))
        return all(_is_documented(event) or event.get("type") == "response.failed" for event in events)
    if answer.status < 400 or method == "HEAD":
        return True
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    if path.startswith("/api/"):
        return isinstance(body, dict) and body.keys() == {"error"} and isinstance(body["error"], str)
    return is_error_of_messages(body) if _is_of_messages(path) else _is_documented(body)


def _is_of_messages(path: str) -> bool:
    return path.partition("?")[0] in (_MESSAGES_PATH, f"{_MESSAGES_PATH}/count_tokens")


def _is_documented(body: Any) -> bool:
    error = body.get("error") if isinstance(body, dict) else None
    return (
        isinstance(error, dict)
        and error.keys() == _FIELDS
        and isinstance(error["message"], str)
        and error["type"] in _TYPES
        and isinstance(error["code"], str | None)
    )


def draw_each(number: int, strategy: SearchStrategy[T], act: Callable[[T], object], place: int = 0) -> None:
    """Call ``act`` with ``number`` examples of ``strategy``, the same in each run and for each ``place``.

    Nothing is shrunk: the campaign collects problems, and goes on.
    """

    @seed(place)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def act_on_each(drawn: T) -> None:
        act(drawn)

    act_on_each()
