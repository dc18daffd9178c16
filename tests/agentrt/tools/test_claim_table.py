"""Pending claims: taken by id or key within one run, never of another run, bounded, and expiring."""

from __future__ import annotations

import itertools
from collections import Counter
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentrt import run_scope
from agentrt.tools.claim_table import ClaimTable
from agentrt.tools.claims import PendingClaim
from agentrt.tools.scopes import TurnMark, begin_turn, current_scope
from agentrt.tools.speculable_tool import Invocation, SpeculableOptions, SpeculableTool
from agentrt.tools.speculation import Draft, Speculation
from tests.agentrt.tools.test_claims import Recorder, run_of
from tests.hypothesis_profiles import examples

KEYS = st.sampled_from(["a", "b"])
IDS = st.sampled_from(["unique", "call_0", None])


def left(key: str = "k", recorder: Recorder | None = None) -> PendingClaim:
    return PendingClaim(key, run_of(key), recorder or Recorder())


def test_equal_ids_of_different_runs_do_not_meet() -> None:
    claims = ClaimTable(ttl=60.0)
    ann, bob = left(), left()
    claims.add("call_0", ann, TurnMark(), "ann")
    claims.add("call_0", bob, TurnMark(), "bob")
    assert claims.take("call_0", "k", None) is None
    assert claims.take("call_0", "k", None, "eve") is None
    assert claims.take("call_0", "k", None, "ann") is ann
    assert claims.take("call_0", "k", None, "bob") is bob


def test_a_call_without_an_id_takes_its_key_of_its_run() -> None:
    claims, turn = ClaimTable(ttl=60.0), TurnMark()
    by_scope, by_turn = left(), left()
    claims.add("call_1", by_scope, TurnMark(), "ann")
    claims.add(None, by_turn, turn)
    assert claims.take(None, "k", None) is None
    assert claims.take(None, "other", turn) is None
    assert claims.take(None, "k", turn) is by_turn
    assert claims.take(None, "k", turn, "ann") is by_scope


def test_a_repeated_id_is_told_apart_by_its_key() -> None:
    claims = ClaimTable(ttl=60.0)
    old, new = left("old"), left("new")
    for pending in (old, new):
        claims.add("call_0", pending, TurnMark(), "ann")
    assert claims.take("call_0", "new", None, "ann") is new
    assert claims.take("call_0", "old", None, "ann") is old


def test_equal_calls_of_one_answer_are_taken_in_order() -> None:
    claims, turn = ClaimTable(ttl=60.0), TurnMark()
    first, second = left(), PendingClaim("k", None, Recorder(), "taken by an equal call")
    claims.add(None, first, turn, "ann")
    claims.add(None, second, turn, "ann")
    assert [claims.take(None, "k", None, "ann") for _ in range(3)] == [first, second, None]


def test_equal_calls_of_parallel_turns_cannot_be_told_apart() -> None:
    claims, recorder = ClaimTable(ttl=60.0), Recorder()
    for _ in range(2):
        claims.add("call_0", left("k", recorder), TurnMark(), "ann")
    taken = [claims.take("call_0", "k", None, "ann") for _ in range(2)]
    assert [pending is not None and pending.speculation for pending in taken] == [None, None]
    assert recorder.notes == [("unclaimed", "equal calls of its run could not be told apart")] * 2


def test_without_a_scope_an_id_is_honoured_once_even_after_it_expired() -> None:
    now = [0.0]
    claims = ClaimTable(ttl=10.0, clock=lambda: now[0])
    claims.add("call_0", left(), TurnMark())
    now[0] = 11.0  # ann's call never came in time, and bob's model writes the same id
    bob = TurnMark()
    claims.add("call_0", left(), bob)
    assert claims.take("call_0", "k", None) is None  # in a context that knows neither
    assert claims.take("call_0", "k", bob) is not None


def test_outside_of_contexts_an_id_that_a_run_with_a_scope_has_too_is_not_honoured() -> None:
    for scopes in ([None, "eve"], ["eve", None]):
        claims = ClaimTable(ttl=60.0)
        for scope in scopes:
            claims.add("call_0", left(), TurnMark(), scope)
        assert claims.take("call_0", "k", None) is None


def test_a_run_with_a_scope_takes_nothing_of_a_turn_without_one() -> None:
    claims = ClaimTable(ttl=60.0)
    pending = left()
    claims.add("call_1", pending, TurnMark())
    assert claims.take("call_1", "k", TurnMark(), "ann") is None
    assert claims.take("call_1", "k", None) is pending


def test_a_turn_that_the_run_has_left_behind_is_dropped() -> None:
    claims, recorder, turn = ClaimTable(ttl=60.0), Recorder(), TurnMark()
    claims.add("a", left("k", recorder), turn, "ann")
    claims.add("b", left("k", recorder), TurnMark(), "ann")
    claims.add("b", left("k", recorder), TurnMark(), "bob")
    claims.drop_turn(turn, "left behind")
    claims.drop_calls(["b", "c"], "ann", "answered")
    assert len(claims) == 1
    assert recorder.notes == [("unclaimed", "left behind"), ("unclaimed", "answered")]


def test_an_unmade_call_of_a_context_is_a_miss_and_takes_no_claim_of_the_next_turn() -> None:
    claims, recorder, ann, bob = ClaimTable(ttl=60.0), Recorder(), TurnMark(), TurnMark()
    claims.add("of ann", left("k", recorder), ann)
    claims.leave_turn(ann, bob, "left behind")
    claims.add("of bob", left("k", recorder), bob)
    assert recorder.notes == [("unclaimed", "left behind")]
    taken = [claims.take(None, "k", bob) for _ in range(2)]
    assert [pending is not None and pending.speculation for pending in taken] == [None, None]
    assert len(claims) == 0


def test_an_unmade_call_is_still_known_by_its_id() -> None:
    claims, ann, bob = ClaimTable(ttl=60.0), TurnMark(), TurnMark()
    claims.add("of ann", left(), ann)
    claims.leave_turn(ann, bob, "left behind")
    of_bob = left()
    claims.add("of bob", of_bob, bob)
    of_ann = claims.take("of ann", "k", bob)
    assert of_ann is not None
    assert of_ann.speculation is None
    assert claims.take(None, "k", bob) is of_bob


def test_an_unmade_call_outlives_several_turns_and_leaves_nothing_behind() -> None:
    claims, marks = ClaimTable(ttl=60.0), [TurnMark() for _ in range(4)]
    claims.add("of ann", left(), marks[0])
    for before, following in itertools.pairwise(marks):
        claims.leave_turn(before, following, "left behind")
    assert claims.take("of ann", "k", marks[-1]) is not None
    assert len(claims) == len(claims._runs) == 0


def test_the_answered_calls_of_one_conversation_leave_no_miss() -> None:
    claims, recorder, turn, after = ClaimTable(ttl=60.0), Recorder(), TurnMark(), TurnMark()
    claims.add("a", left("k", recorder), turn)
    claims.leave_turn(turn, after, "made otherwise", ["a"])
    claims.drop_calls(["a"], None, "made otherwise")
    assert len(claims) == len(claims._runs) == 0
    assert recorder.notes == [("unclaimed", "made otherwise")]


def test_a_call_without_an_id_counts_once_though_it_is_made_after_the_next_turn() -> None:
    claims, recorder, turn, after = ClaimTable(ttl=60.0), Recorder(), TurnMark(), TurnMark()
    claims.add(None, left("k", recorder), turn)
    claims.leave_turn(turn, after, "made otherwise")
    assert recorder.notes == [("unclaimed", "made otherwise")]  # which counts it as made
    assert claims.take(None, "k", after) is None
    assert len(claims) == 0


@examples(200)
@given(st.data())
def test_conversations_in_one_context_never_get_each_others_results(data: st.DataObject) -> None:
    names, context = ("ann", "bob"), Context()
    bind = lambda arguments: Invocation(kwargs=dict(arguments))  # noqa: E731
    tool = SpeculableTool("tool", bind=bind, call=None, acall=None, options=SpeculableOptions(ttl=10.0))
    key_of = lambda key: tool.key(tool.bind({"q": key}))  # noqa: E731
    unmade: dict[str, list[tuple[str | None, str]]] = {name: [] for name in names}
    mentioned: dict[str, list[str]] = {name: [] for name in names}

    def answer(name: str, calls: list[tuple[str | None, str]]) -> None:
        mark, before = begin_turn()
        if before is not None:
            tool.pending_claims.leave_turn(before, mark, "left behind", mentioned[name])
        tool.pending_claims.drop_calls(mentioned[name], None, "made otherwise")
        unmade[name] = [(f"{id(mark)} {n}" if i == "unique" else i, key) for n, (i, key) in enumerate(calls)]
        mentioned[name] = []
        for call_id, key in unmade[name]:
            speculation = Speculation(Draft("tool", key_of(key)), ttl=60.0)
            speculation.finish(name)
            tool.pending_claims.add(call_id, PendingClaim(key_of(key), speculation, Recorder()), mark)

    def call(name: str, keeps_id: bool) -> None:
        call_id, key = unmade[name].pop(0)
        if call_id is not None:
            mentioned[name].append(call_id)
        assert tool.claim(call_id if keeps_id else None, lambda: key_of(key), lambda: name) == name

    for _ in range(data.draw(st.integers(2, 8))):
        name = data.draw(st.sampled_from(names))
        if not unmade[name]:
            context.run(answer, name, data.draw(st.lists(st.tuples(IDS, KEYS), min_size=1, max_size=2)))
        else:
            context.run(call, name, data.draw(st.booleans()))


@dataclass
class Run:
    """A run of the machine: a context, and a scope if it has one."""

    name: str
    scope: str | None
    context: Context = field(default_factory=Context)
    calls: list[tuple[str | None, str]] = field(default_factory=list)

    def within(self, function: Any, *args: Any) -> Any:
        def inside() -> Any:
            if self.scope is None:
                return function(*args)
            with run_scope(self.scope):
                return function(*args)

        return self.context.run(inside)


class ClaimMachine(RuleBasedStateMachine):
    """Turns and calls of several runs in any order, with ids that are unique, repeated or missing."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        options = SpeculableOptions(ttl=10.0)
        bind = lambda arguments: Invocation(kwargs=dict(arguments))  # noqa: E731
        self.tool = SpeculableTool("tool", bind=bind, call=None, acall=None, options=options)
        self.tool.pending_claims = ClaimTable(ttl=10.0, max_pending=6, clock=lambda: self.now)
        self.runs = [Run("ann", None), Run("bob", None), Run("eve", "eve"), Run("dan", "dan")]
        self.recorder = Recorder()
        self.numbers = 0
        self.ran = 0
        self.made = 0
        self.handed_out: Counter[int] = Counter()
        self.speculations: dict[int, Speculation] = {}

    @rule(
        run=st.integers(0, 3),
        calls=st.lists(st.tuples(IDS, KEYS, st.booleans()), max_size=3),
    )
    def answer(self, run: int, calls: list[tuple[str | None, str, bool]]) -> None:
        """The model of a run answers with calls; the marked ones were run speculatively."""
        here = self.runs[run]
        here.within(self._bind, here, calls)

    def _bind(self, here: Run, calls: list[tuple[str | None, str, bool]]) -> None:
        mark, before = begin_turn()
        if before is not None:
            self.tool.pending_claims.drop_turn(before, "left behind")
        here.calls.clear()  # agents make all calls of an answer before the next request
        for call_id, key, predicted in calls:
            self.numbers += 1
            call_id = f"call_{self.numbers}_unique" if call_id == "unique" else call_id
            speculation = Speculation(Draft("tool", self._key(key)), ttl=60.0) if predicted else None
            if speculation is not None:
                speculation.finish((here.name, key, self.numbers))
                self.speculations[self.numbers] = speculation
            pending = PendingClaim(self._key(key), speculation, self.recorder)
            self.tool.pending_claims.add(call_id, pending, mark, current_scope())
            here.calls.append((call_id, key))

    def _key(self, key: str) -> str:
        return self.tool.key(self.tool.bind({"q": key}))

    @precondition(lambda self: any(run.calls for run in self.runs))
    @rule(data=st.data(), keeps_context=st.booleans(), keeps_id=st.booleans(), edited=st.booleans())
    def call(self, data: st.DataObject, keeps_context: bool, keeps_id: bool, edited: bool) -> None:
        """The agent of a run makes one of its calls, with or without its id and context."""
        here = data.draw(st.sampled_from([run for run in self.runs if run.calls]))
        call_id, key = here.calls.pop(data.draw(st.integers(0, len(here.calls) - 1)))
        key = "edited" if edited else key
        run = here if keeps_context else Run(here.name, None)
        run.within(self._call, here.name, call_id if keeps_id else None, key)

    @rule(run=st.integers(0, 3), call_id=st.sampled_from([None, "mine"]), key=KEYS)
    def call_directly(self, run: int, call_id: str | None, key: str) -> None:
        """The application of a run calls the tool itself."""
        here = self.runs[run]
        here.within(self._call, here.name, call_id, key)

    def _call(self, name: str, call_id: str | None, key: str) -> None:
        self.made += 1

        def real() -> Any:
            self.ran += 1
            return name, key, 0

        make_key = lambda: self._key(key)  # noqa: E731
        got_name, got_key, number = self.tool.claim(call_id, make_key, real, current_scope())
        assert (got_name, got_key) == (name, key)
        if number:
            self.handed_out[number] += 1

    @rule(seconds=st.floats(0, 8))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def every_call_ran_or_claimed_once(self) -> None:
        assert self.made == self.ran + self.handed_out.total()
        assert all(count == 1 for count in self.handed_out.values())
        assert [what for what, _ in self.recorder.notes].count("claimed") == self.handed_out.total()

    @invariant()
    def pending_claims_are_bounded_and_the_others_over(self) -> None:
        table = self.tool.pending_claims
        assert len(table) <= 6
        held = {id(entry.pending.speculation) for entry in table._entries}
        for number, speculation in self.speculations.items():
            final = speculation.state.value in ("claimed", "dropped")
            assert final != (id(speculation) in held), number


TestClaims = ClaimMachine.TestCase
