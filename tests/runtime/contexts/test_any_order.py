"""The table of contexts against a model of it: any order of calls, deletions and restarts."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentrt.errors import ContextBusyError, ContextNotFoundError, ContextQuotaError
from agentrt.runtime.contexts.app_contexts import OpenTurn
from agentrt.runtime.contexts.context import ContextKind
from agentrt.runtime.contexts.table import ContextTable
from tests.hypothesis_profiles import examples
from tests.runtime.contexts.memory_store import MemoryStore

LIMIT = 3
APPS = ["a", "b"]
SESSIONS = ["x", "y", "z", "w"]


@dataclass(eq=False)
class Expected:
    """What a context should be."""

    app: str
    id: str
    kind: ContextKind
    session: str | None = None
    texts: list[str] = field(default_factory=list)
    turn: OpenTurn | None = None
    outputs: list[Future[Any]] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        return self.turn is None and not self.outputs


class Contexts(RuleBasedStateMachine):
    """Applies each operation to the table and to a list, whose first element is the least recently used."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.expected: list[Expected] = []
        self.deleted: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.count = 0
        self.start()

    def start(self) -> None:
        self.table = ContextTable(LIMIT, self.store)

    def of(self, app: str, *, made_by_app: bool) -> list[Expected]:
        found = [context for context in self.expected if context.app == app]
        return [context for context in found if (context.kind is ContextKind.CONTEXT) is made_by_app]

    def touch(self, context: Expected) -> None:
        self.expected.remove(context)
        self.expected.append(context)

    def remove(self, context: Expected) -> None:
        self.expected.remove(context)
        self.deleted.append((context.app, context.id))

    def give_way(self, app: str) -> None:
        others = self.of(app, made_by_app=False)
        for _ in range(len(others) - LIMIT + 1):
            idle = [context for context in self.of(app, made_by_app=False) if context.idle]
            if idle:
                self.remove(idle[0])

    def pick(self, data: st.DataObject, app: str) -> Expected | None:
        mine = [context for context in self.expected if context.app == app]
        return data.draw(st.sampled_from(mine)) if mine else None

    def text(self) -> dict[str, str]:
        self.count += 1
        return {"role": "user", "content": str(self.count)}

    @rule(app=st.sampled_from(APPS))
    def create(self, app: str) -> None:
        if len(self.of(app, made_by_app=True)) == LIMIT:
            with pytest.raises(ContextQuotaError):
                self.table.create(app)
            return
        self.expected.append(Expected(app, self.table.create(app).id, ContextKind.CONTEXT))

    @rule(app=st.sampled_from(APPS), name=st.sampled_from(SESSIONS))
    def session(self, app: str, name: str) -> None:
        known = [context for context in self.expected if (context.app, context.session) == (app, name)]
        id = self.table.session(app, name)
        if known:
            assert id == known[0].id
            return
        self.give_way(app)
        self.expected.append(Expected(app, id, ContextKind.SESSION, name))

    @rule(app=st.sampled_from(APPS), data=st.data())
    def begin(self, app: str, data: st.DataObject) -> None:
        context = self.pick(data, app)
        if context is None:
            return
        if context.turn is not None:
            with pytest.raises(ContextBusyError):
                self.table.begin_turn(app, context.id)
            return
        context.turn = self.table.begin_turn(app, context.id)
        self.touch(context)

    @precondition(lambda self: any(context.turn for context in self.expected))
    @rule(data=st.data(), committed=st.booleans())
    def end(self, data: st.DataObject, committed: bool) -> None:
        context = data.draw(st.sampled_from([each for each in self.expected if each.turn]))
        assert context.turn is not None
        if committed:
            message = self.text()
            context.turn.commit([message], 1)
            context.texts.append(message["content"])
            self.touch(context)
        else:
            context.turn.close()
        context.turn = None

    @rule(app=st.sampled_from(APPS), data=st.data())
    def request(self, app: str, data: st.DataObject) -> None:
        context = self.pick(data, app)
        if context is not None:
            context.outputs.append(Future())
            self.table.track(
                app, context.id, context.outputs[-1], lambda id=context.id: self.cancelled.append(id)
            )
            self.touch(context)

    @precondition(lambda self: any(context.outputs for context in self.expected))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        context = data.draw(st.sampled_from([each for each in self.expected if each.outputs]))
        context.outputs.pop().set_result(None)

    @rule(app=st.sampled_from(APPS), data=st.data())
    def delete(self, app: str, data: st.DataObject) -> None:
        context = self.pick(data, app)
        if context is None:
            return
        already = len(self.cancelled)
        self.table.delete(app, context.id)
        cancelled = 0 if context.kind is ContextKind.SESSION else len(context.outputs)
        assert self.cancelled[already:] == [context.id] * cancelled
        self.end_deleted(context)

    @rule(app=st.sampled_from(APPS))
    def delete_all(self, app: str) -> None:
        mine = [context for context in self.expected if context.app == app]
        running = [each for each in mine if each.kind is not ContextKind.SESSION]
        already = len(self.cancelled)
        self.table.delete_all(app)
        expected = [context.id for context in running for _ in context.outputs]
        assert sorted(self.cancelled[already:]) == sorted(expected)
        for context in mine:
            self.end_deleted(context)

    def end_deleted(self, context: Expected) -> None:
        """End the calls of a context that was deleted."""
        self.remove(context)
        if context.turn is not None:
            with pytest.raises(ContextNotFoundError):
                context.turn.commit([self.text()], 1)
        for output in context.outputs:
            output.set_result(None)

    @rule()
    def restart(self) -> None:
        self.start()
        for context in self.expected:
            context.turn = None
            context.outputs = []

    @invariant()
    def every_app_finds_its_contexts_and_no_others(self) -> None:
        for app in APPS:
            listed = self.table.contexts(app)
            mine = [context for context in self.expected if context.app == app]
            assert {context.id for context in listed} == {context.id for context in mine}
            for context in mine:
                found = self.table.get(app, context.id)
                assert [message["content"] for message in found.messages] == context.texts
                assert (found.kind, found.session) == (context.kind, context.session)
                assert found.running is not context.idle
        for owner, id in [(context.app, context.id) for context in self.expected] + self.deleted:
            for app in APPS:
                if app != owner or (owner, id) in self.deleted:
                    with pytest.raises(ContextNotFoundError):
                        self.table.get(app, id)

    @invariant()
    def the_store_has_the_same_texts(self) -> None:
        stored = {(app, id) for app, texts in self.store.apps.items() for id in texts}
        assert stored == {(context.app, context.id) for context in self.expected}


TestContexts = Contexts.TestCase
TestContexts.settings = examples(100, stateful_step_count=40)
TestContexts.pytestmark = [pytest.mark.hypothesis]
