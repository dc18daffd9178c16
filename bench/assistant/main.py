"""The assistant bench: what ``agentrt chat`` answers to requests of a person, and how soon it starts."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from agentrt.errors import BenchProcessError, RequestError

from ..common.estimates import Estimate, median, share
from ..common.machine import describe_machine
from ..common.process import without_settings
from ..common.report import BenchReport, Table
from .dialogues import NOW, Dialogue, Judgement, judge, load_dialogues

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    every: int
    """Of so many dialogues one is held."""
    starts: int


SIZES: Final = {True: Size(10, 1), False: Size(1, 5)}
FIRST: Final = "What is on my calendar today?"
METHOD: Final = f"""\
Dialogues were written by somebody who knew the tools and the sample data and had seen neither the \
assistant's code nor its prompts; nothing is tuned on them. Each is a conversation of agentrt chat on fresh \
sample data, at {NOW:%H:%M} on {NOW:%A, %d %B %Y}, where writes run without asking. exact_fraction is the \
share of turns with the right tools, an answer that has all texts of a right one, and exactly the writes \
that were asked for; follow_up_fraction that of turns that depend on the turn before. wrong_writes counts \
notes, events and changes that nobody asked for, or that are others. false_statement_fraction is the share \
of answers that report a deed without its call, state a number that was neither said nor found, or do not \
say that what was asked cannot be done. silent and loops count answers without a text, and those that repeat \
themselves. Intervals are over turns. second_start_ttft_s is from the start of a process of agentrt chat, on \
a model that was opened before and with the contexts that were kept then, to the first character on its \
terminal of the answer to "{FIRST}"."""
_LAST_LINES: Final = 20
_FOLLOW_UP: Final = "follow_up"


def run(*, quick: bool, workloads: Path | None, progress: Progress, model: str = "nano") -> BenchReport:
    """Talk to the assistant on ``model``; it needs no workloads.

    Raises:
        ModelNotFoundError, ModelFormatError: the model is missing or damaged. Nothing was measured.
        BenchProcessError: a chat could not be started.
    """
    machine, size = describe_machine(), SIZES[quick]
    judged = _hold(load_dialogues()[:: size.every], model, progress)
    starts = []
    with TemporaryDirectory() as folder:
        for number in range(size.starts + 1):
            progress(f"start {number} of {size.starts}")
            starts.append(_start(model, folder))
    turns = [each for group in judged.values() for each in group]
    follow_ups = judged.get(_FOLLOW_UP, [])
    figures = _figures(turns)
    if follow_ups:
        figures["follow_up_fraction"] = share(sum(each.exact for each in follow_ups), len(follow_ups))
    return BenchReport(
        bench="assistant",
        machine=machine,
        figures={**figures, "second_start_ttft_s": median(starts[1:])},
        tables=(
            Table(
                title="requests of a person",
                columns=("group", "turns", "exact", "wrong writes", "false statements", "silent", "loops"),
                rows=tuple(
                    (
                        group.replace("_", " "),
                        len(each),
                        share(sum(turn.exact for turn in each), len(each)),
                        sum(turn.wrong_writes for turn in each),
                        sum(turn.is_false for turn in each),
                        sum(turn.silent for turn in each),
                        sum(turn.loops for turn in each),
                    )
                    for group, each in judged.items()
                ),
            ),
        ),
        method=METHOD,
    )


def _figures(turns: Sequence[Judgement]) -> dict[str, Estimate]:
    return {
        "exact_fraction": share(sum(each.exact for each in turns), len(turns)),
        "false_statement_fraction": share(sum(each.is_false for each in turns), len(turns)),
        "wrong_writes": _count([each.wrong_writes for each in turns]),
        "silent": _count([each.silent for each in turns]),
        "loops": _count([each.loops for each in turns]),
    }


def _count(found: Sequence[int]) -> Estimate:
    """Return the sum, with the interval of as many turns with and without."""
    of = share(sum(map(bool, found)), len(found))
    assert of.low is not None
    assert of.high is not None
    turns = len(found)
    return Estimate(value=sum(found), low=of.low * turns, high=of.high * turns, samples=turns)


def _hold(dialogues: Sequence[Dialogue], model: str, progress: Progress) -> dict[str, list[Judgement]]:
    """Hold the dialogues one after the other; return the judgements of their turns by group.

    Of dialogues of the group ``follow_up`` the first turns count as ``single``: nothing is before them.
    """
    from agentrt.examples.assistant.model import open_runtime

    judged: dict[str, list[Judgement]] = {}
    with asyncio.Runner() as runner, open_runtime(model) as runtime:
        for number, dialogue in enumerate(dialogues, 1):
            progress(f"dialogue {number} of {len(dialogues)}: {dialogue.group.replace('_', ' ')}")
            first = "single" if dialogue.group == _FOLLOW_UP else dialogue.group
            groups = itertools.chain([first], itertools.repeat(dialogue.group))
            for group, each in zip(groups, _talk(dialogue, runtime, runner), strict=False):
                judged.setdefault(group, []).append(each)
    return judged


def _talk(dialogue: Dialogue, runtime: LocalRuntime, runner: asyncio.Runner) -> Iterator[Judgement]:
    """Take the turns of a dialogue. After one that needs a tool that is not there it ends."""
    from langchain_core.messages import ToolMessage

    from agentrt.examples.assistant.data import PersonalData
    from agentrt.examples.assistant.sample_data import write_sample_data
    from agentrt.examples.chat.conversation import Conversation, SilentView
    from agentrt.examples.chat.steered import steered_agent

    with TemporaryDirectory() as folder:
        sample = Path(folder) / "sample"
        write_sample_data(sample, NOW.date())
        with closing(PersonalData.open(sample, today=NOW.date)) as data:
            agent, tools = steered_agent(runtime, data, now=lambda: NOW)
            conversation = Conversation(agent, runtime.context_length)
            offered = {tool.name for tool in tools}
            known: list[str] = []
            called: set[str] = set()
            for turn in dialogue.turns:
                if not offered.issuperset(turn.tools):
                    return
                try:
                    messages = runner.run(conversation.ask(turn.say, SilentView()))
                except RequestError:  # which `agentrt chat` shows instead of an answer
                    yield Judgement(exact=False)
                    continue
                known += [turn.say, *(each.text for each in messages if isinstance(each, ToolMessage))]
                yield judge(turn, messages, "\n".join(known), called)
                called |= {each.name or "" for each in messages if isinstance(each, ToolMessage)}


def _start(model: str, folder: str) -> float:
    """Return the seconds until a new ``agentrt chat``, whose contexts are in ``folder``, shows an answer.

    Raises:
        BenchProcessError: it ended without one.
    """
    shown, terminal = os.openpty()  # where an answer is shown as it is generated
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "agentrt", "chat", "--model", model, FIRST],
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={**without_settings(folder), "XDG_STATE_HOME": folder},  # nor the user's running server
    )
    os.close(terminal)
    taken = 0.0
    with os.fdopen(shown, "rb", buffering=0) as screen, process:
        try:
            if screen.read(1):
                taken = time.perf_counter() - begun
            while screen.read(4096):
                pass
        except OSError:  # Linux says so when the process has closed its end
            pass
        assert process.stderr is not None
        said = process.stderr.read().decode("utf-8", "replace")
    if process.returncode or not taken:
        raise BenchProcessError(process.returncode, said.splitlines()[-_LAST_LINES:])
    return taken
