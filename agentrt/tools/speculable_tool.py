"""A speculable tool of any framework, and its options."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict, TypeVar

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from ..calls import canonical_key
from ..concurrency.contained import contained, is_own_failure
from ..concurrency.threads import run_in_thread
from ..errors import ConfigurationError, NotSpeculableError
from ..settings import Settings
from .claim_table import ClaimTable
from .claims import PendingClaim, aclaim, claim
from .scopes import current_scope, current_turn
from .writes import write_log

logger = logging.getLogger("agentrt")
_OTHER_RUN = "the context or configuration that the tool reads was another"
R = TypeVar("R")
_MAX_RECEIVED = 4096
Canonical = Callable[..., Mapping[str, Any]]
Readable = Literal["context", "configurable"]
Guard = Callable[[Mapping[str, Any]], bool | Awaitable[bool]]


class SpeculableKeywords(TypedDict, total=False):
    """:class:`SpeculableOptions` as the keywords of :func:`speculable`."""

    ttl: float
    max_concurrency: int
    timeout: float
    cost: float
    canonical: Canonical | None
    invalidated_by: Sequence[str]
    guard: Guard | None
    before_approval: bool
    discloses: bool
    prepare: Callable[..., Any] | None
    commit: Callable[[Any], Any] | None
    discard: Callable[[Any], Any] | None
    reads: Collection[Readable]


class SpeculableOptions(Settings):
    """Options of a speculable tool.

    ``ttl`` is how many seconds a finished result, or a call of the model's answer, is kept.
    ``max_concurrency`` bounds the tool's speculative runs at one time, over all sessions. ``timeout`` is how
    many seconds a speculative run may take; it no longer applies once the model has made the call. ``cost``
    is the price of one run, in the currency of the budget. ``canonical`` maps the validated arguments (passed
    as keywords, copied) to those that identify the call, where the tool knows more than its schema says.

    ``invalidated_by`` names the tools that change what this one reads: when the model calls one of them,
    earlier results of the same run are dropped, so that the run reads its own writes.

    ``guard`` takes a copy of the validated arguments, as a mapping by name, and returns True if the tool may
    run speculatively with them; if it returns anything else or raises, the tool runs only when the model
    calls it. It is a function or a coroutine function. A plain function is called on an event loop and must
    be quick.

    ``before_approval`` lets the tool run before the guards that the agent's framework shows have seen its
    call: a person's approval, middleware around tool calls, an interrupt of the graph. Its result still
    reaches the agent only after them, and leaves the process only then.

    ``discloses`` says that the arguments leave what the user trusts: they are sent to a search engine, say.
    Predictions of such a tool run only if the conversation has a call of the tool, with values that the tool
    has received before, or within a :func:`agentrt.run_scope` that permits it.

    ``prepare``, ``commit`` and ``discard`` are for a tool with an effect, which must not happen
    speculatively. ``prepare`` is run speculatively, with the tool's arguments. The real call runs ``commit``
    with the value that ``prepare`` returned; ``discard`` takes an unclaimed value, once. Where nothing was
    prepared, the tool itself runs, so it must do what ``prepare`` and ``commit`` do together. All three are
    functions, or all three are coroutine functions.

    ``reads`` is for a LangChain tool that takes LangGraph's ``ToolRuntime`` or a ``RunnableConfig``: what it
    reads of them that is fixed for the run, its ``context`` or the user's entries of ``configurable``.
    """

    called: ClassVar[str] = "a speculable tool"

    ttl: PositiveFloat = 60.0
    max_concurrency: PositiveInt = 8
    timeout: PositiveFloat = 60.0
    cost: NonNegativeFloat = 0.0
    canonical: Canonical | None = None
    invalidated_by: tuple[str, ...] = ()
    guard: Guard | None = None
    before_approval: bool = False
    discloses: bool = False
    prepare: Callable[..., Any] | None = None
    commit: Callable[[Any], Any] | None = None
    discard: Callable[[Any], Any] | None = None
    reads: frozenset[Readable] = frozenset()

    @field_validator("invalidated_by", mode="before")
    @classmethod
    def _any_collection(cls, given: Any) -> Any:
        if isinstance(given, (str, Mapping)) or not isinstance(given, Collection):
            raise ValueError('give a list of names of tools, such as ["send_mail"]')
        return tuple(given)

    @model_validator(mode="after")
    def _two_phases_are_complete(self) -> Self:
        phases = (self.prepare, self.commit, self.discard)
        if any(phases) and not all(phases):
            raise ValueError("prepare, commit and discard belong together: give all three or none")
        if len(set(map(inspect.iscoroutinefunction, phases))) > 1:
            raise ValueError("prepare, commit and discard must all be coroutine functions, or none of them")
        return self


@dataclass(frozen=True, slots=True)
class Invocation:
    """The arguments of one call as the tool's function receives them, after validation."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    named: Mapping[str, Any] | None = None
    """The arguments by the names in the tool's schema, where ``kwargs`` does not have them so."""
    known: object = None
    """What the tool reads of its run beside the arguments: equal in a speculation and the call it answers."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments by name."""
        return self.kwargs if self.named is None else self.named


class CallKey(NamedTuple):
    """The canonical key of a call that reaches its tool, and why no speculation may answer it, if so.

    ``known`` is what the tool reads of its run, as in :class:`Invocation`.
    """

    key: str
    unclaimable: str | None = None
    known: object = None


class SpeculableTool:
    """A speculable tool of any framework."""

    def __init__(
        self,
        name: str,
        *,
        bind: Callable[[Mapping[str, Any]], Invocation],
        call: Callable[..., Any] | None,
        acall: Callable[..., Awaitable[Any]] | None,
        options: SpeculableOptions,
        speculative_call: Callable[..., Any] | None = None,
        speculative_acall: Callable[..., Awaitable[Any]] | None = None,
        injected: frozenset[str] = frozenset(),
        known: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        """``bind`` validates raw arguments and raises on bad ones; ``call`` or ``acall`` may be None.

        ``speculative_call`` and ``speculative_acall`` are run speculatively instead of ``call`` and
        ``acall``, where they differ. ``injected`` are the arguments that a framework adds to the real call:
        they do not identify it, and no guard sees them. ``known`` returns what the tool reads of its run, of
        the arguments of a real call.

        Raises:
            NotSpeculableError: the options say that the tool reads of its run, and there is no ``known``.
        """
        if options.reads and known is None:
            raise NotSpeculableError(
                f"{name} is no LangChain tool with a ToolRuntime or RunnableConfig. Leave out reads."
            )
        self._known = known
        self.name = name
        self.bind = bind
        self.call = call
        self.acall = acall
        self.injected = injected
        self.speculative_call = speculative_call or call
        """The function that a speculation runs in a thread, or None."""
        self.speculative_acall = speculative_acall or acall
        """The coroutine function that a speculation runs, or None."""
        self.two_phase = options.prepare is not None
        if self.two_phase:
            as_coroutine = inspect.iscoroutinefunction(options.prepare)
            self.speculative_call = None if as_coroutine else options.prepare
            self.speculative_acall = options.prepare if as_coroutine else None
        self.options = options
        self._warned = False
        self.received = ReceivedValues()
        """What calls have passed to the tool, if it ``discloses``."""
        self.pending_claims = ClaimTable(ttl=options.ttl)
        write_log.watch(options.invalidated_by)
        self.slots = threading.BoundedSemaphore(options.max_concurrency)
        """Acquired, without waiting, by each speculative run; released when its function has ended."""

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: functions are not copied either, and a tool of a framework describes its copy."""
        return self

    def key(self, invocation: Invocation) -> str:
        """Return the canonical key of a call.

        Raises:
            InvalidRequestError: the arguments have no key.
            ConfigurationError: the tool's canonical function failed or returned no mapping; logged once.
        """
        if self.options.canonical is not None:
            return canonical_key(self.name, self._identifying(self.options.canonical, invocation))
        kwargs = self._own(invocation.kwargs)
        if invocation.args:
            return canonical_key(self.name, {"*": invocation.args, **kwargs})
        return canonical_key(self.name, kwargs)

    def key_of(self, arguments: Mapping[str, Any]) -> str:
        """Return the canonical key of a call with these arguments, which are not validated yet.

        Raises:
            Exception: as :meth:`key`, or as the tool raises it that refuses the arguments.
        """
        return self.key(self.bind(arguments))

    def call_key(
        self, invocation: Invocation, arguments: Mapping[str, Any], unclaimable: str | None = None
    ) -> CallKey:
        """Return the key of a real call; ``arguments`` has those that a framework adds, too."""
        known = None if self._known is None else self._known(arguments)
        return CallKey(self.key(invocation), unclaimable, known)

    def _own(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments without those that are injected."""
        if not self.injected:
            return arguments
        return {name: value for name, value in arguments.items() if name not in self.injected}

    def why_no_key(self, arguments: Mapping[str, Any]) -> str:
        """Return why a call with these arguments has no canonical key."""
        try:
            self.key_of(arguments)
        except ConfigurationError as error:
            return str(error)
        except BaseException as error:  # validators are the user's
            if not is_own_failure(error):
                raise
            return "its arguments are not valid"
        return "its canonical function failed once"

    def _identifying(self, canonical: Canonical, invocation: Invocation) -> Mapping[str, Any]:
        """Return what the tool's canonical function makes of the arguments."""
        try:
            own = invocation.args, dict(self._own(invocation.kwargs))
            args, kwargs = copy.deepcopy(own)  # it may change them
            identifying = canonical(*args, **kwargs)
            problem = None if isinstance(identifying, Mapping) else f"returned {type(identifying).__name__}"
        except BaseException as error:  # it is the user's
            if not is_own_failure(error):
                raise
            problem = f"failed with {type(error).__name__}"
        if problem is None:
            return identifying
        message = f"the canonical function of {self.name} {problem}. Let it return a dict for all arguments."
        if not self._warned:
            self._warned = True
            logger.warning("%s Such calls are not run speculatively.", message)
        raise ConfigurationError(message)

    async def why_guarded(self, invocation: Invocation) -> str | None:
        """Ask the tool's guard; return why the call must not be run speculatively, or None if it may."""
        if self.options.guard is None:
            return None
        try:
            permitted = self.options.guard(copy.deepcopy(dict(self._own(invocation.arguments))))
            if inspect.isawaitable(permitted):
                permitted = await permitted
            if permitted is True:
                return None
            if permitted:
                return f"its guard returned {type(permitted).__name__}, not True or False"
            return "its guard does not permit it with these arguments"
        except BaseException as error:  # a guard that fails has not permitted the run
            if not is_own_failure(error):
                raise
            return f"its guard failed with {type(error).__name__}"

    def claim(
        self,
        call_id: str | None,
        key: Callable[[], str | CallKey],
        run: Callable[[], R],
        scope: Hashable = None,
    ) -> R:
        """Answer a call from its speculation, or else with ``run()``.

        ``call_id`` is None if the call reaches the tool without its id. ``key`` returns its canonical key; if
        it raises, nothing matches. ``scope`` is that of the run; None is the one of this context, if any.
        """
        scope = current_scope() if scope is None else scope
        pending, key_made = self._take(call_id, key, scope)
        commit = self.options.commit
        if pending is not None and inspect.iscoroutinefunction(commit):
            pending = _unclaimable(pending, "its commit is a coroutine function")
        try:
            return claim(pending, self.name, key_made, run, commit)  # type: ignore[no-any-return]
        finally:
            write_log.note(scope, self.name)

    async def aclaim(
        self,
        call_id: str | None,
        key: Callable[[], str | CallKey],
        run: Callable[[], Awaitable[R]],
        scope: Hashable = None,
    ) -> R:
        """:meth:`claim` for coroutines."""
        scope = current_scope() if scope is None else scope
        pending, key_made = self._take(call_id, key, scope)
        commit = None if self.options.commit is None else functools.partial(self._phase, self.options.commit)
        try:
            return await aclaim(pending, self.name, key_made, run, commit)
        finally:
            write_log.note(scope, self.name)

    def _take(
        self, call_id: str | None, key: Callable[[], str | CallKey], scope: Hashable
    ) -> tuple[PendingClaim | None, str | None]:
        """Return the pending claim of a call, and the call's key; neither if nothing is pending."""
        turn = current_turn()
        if not len(self.pending_claims) or (call_id is None and turn is None and scope is None):
            return None, None
        made, unclaimable, known = None, None, None
        with contained(lambda error: None):  # canonicalisers are the user's; one that fails gives no match
            of_call = key()
            made, unclaimable, known = of_call if isinstance(of_call, CallKey) else (of_call, None, None)
        pending = self.pending_claims.take(call_id, made, turn, scope)
        if pending is not None and pending.speculation is not None and self._known is not None:
            same = False
            with contained(lambda error: None):  # comparing runs code of the user
                same = bool(known == pending.speculation.known)
            unclaimable = unclaimable if same else _OTHER_RUN
        if pending is not None and pending.arguments is not None and made == pending.key:
            self.received.add(pending.arguments)
        if pending is not None and unclaimable is not None:
            pending = _unclaimable(pending, unclaimable)
        return pending, made

    async def adiscard(self, prepared: Any) -> None:
        """Discard an unclaimed preparation."""
        assert self.options.discard is not None
        await self._phase(self.options.discard, prepared)

    async def _phase(self, phase: Callable[[Any], Any], prepared: Any) -> Any:
        if inspect.iscoroutinefunction(phase):
            return await phase(prepared)
        return await run_in_thread(functools.partial(phase, prepared), name=f"agentrt {self.name}")


def _unclaimable(pending: PendingClaim, reason: str) -> PendingClaim:
    pending.drop_unclaimed(reason, called=True)
    return pending.missed(reason)


class ReceivedValues:
    """Digests of the values in the arguments of calls, the latest 4096. Thread-safe."""

    def __init__(self) -> None:
        """Create the set of a tool that was never called."""
        self._lock = threading.Lock()
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def add(self, arguments: Mapping[str, Any]) -> None:
        """Note that a call has passed these arguments."""
        with self._lock:
            for value in _values_in(arguments):
                self._digests[_digest(value)] = None
                self._digests.move_to_end(_digest(value))
            while len(self._digests) > _MAX_RECEIVED:
                self._digests.popitem(last=False)

    def contain(self, arguments: Mapping[str, Any]) -> bool:
        """Whether each value in these arguments was received before; True if there is none."""
        with self._lock:
            return all(_digest(value) in self._digests for value in _values_in(arguments))


def _values_in(arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what the arguments hold besides the names of parameters, which are the tool's own."""
    pending = list(arguments.values())
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            yield from value
            pending += value.values()
        elif isinstance(value, (list, tuple)):
            pending += value
        else:
            yield value


def _digest(value: Any) -> bytes:
    return blake2b(repr(value).encode(), digest_size=16).digest()
