"""What a LangGraph run knows before a tool is called, and what stands in for the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from ..runs import configurable_of_run


class StandIn:
    """Value of an injected argument in a speculative run: whatever uses it calls a function that raises."""

    def __init__(self, use: Callable[[], NoReturn]) -> None:
        """``use`` is called by every use of the stand-in, and raises."""
        object.__setattr__(self, "_use", use)

    def __getattribute__(self, name: str) -> Any:
        """Raise: an attribute is used."""
        _use(self)


def _use(stand_in: StandIn, *_: Any) -> NoReturn:
    use: Callable[[], NoReturn] = object.__getattribute__(stand_in, "_use")
    use()


# Python looks these up in the class. Operators that ``object`` does not have raise a TypeError by themselves.
for _name in (
    *("__bool__", "__call__", "__contains__", "__delattr__", "__dir__", "__eq__", "__format__"),
    *("__getitem__", "__hash__", "__iter__", "__len__", "__ne__", "__reduce_ex__", "__repr__"),
    *("__setattr__", "__str__"),
):
    setattr(StandIn, _name, _use)


Refuse = Callable[[str], NoReturn]
"""Raises for a use of what belongs to the real call, which it takes by name."""

_OF_A_TASK = frozenset({"checkpoint_id", "checkpoint_ns", "checkpoint_map"})
_UNKNOWN = object()
_of_run: ContextVar[Mapping[str, Any]] = ContextVar("agentrt_of_run", default={})  # noqa: B039 - never changed


@contextmanager
def known_to_turns() -> Iterator[None]:
    """Let turns that start in this block know the context and the configuration of the LangGraph run."""
    token = _of_run.set(configurable_of_run())
    try:
        yield
    finally:
        _of_run.reset(token)


class KnownValues(NamedTuple):
    """What a tool reads of its run; two of them are equal if each value is the same object or equal."""

    context: Any = None
    configurable: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """The injected arguments from which a tool reads what its run knows before the call.

    ``reads`` is the tool's option. ``runtimes`` are the names of its parameters of type ``ToolRuntime``,
    which is ``runtime_type``; ``config`` is that of its ``RunnableConfig``, and ``config_keyword`` the one by
    which LangChain passes it.
    """

    reads: frozenset[str]
    runtimes: frozenset[str] = frozenset()
    runtime_type: type = object
    config: str | None = None
    config_keyword: str = "config"

    def of_call(self, arguments: Mapping[str, Any]) -> KnownValues:
        """Return what a call with these arguments knows."""
        runtime = next((arguments[name] for name in self.runtimes if name in arguments), None)
        config = getattr(runtime, "config", None)
        if self.config is not None:
            config = arguments.get(self.config, arguments.get(self.config_keyword))
        configurable = (config or {}).get("configurable") or {}
        return self._read(getattr(runtime, "context", None), configurable)

    def of_run(self) -> KnownValues:
        """Return what the run knows in which this turn was started."""
        configurable = _of_run.get()
        return self._read(getattr(configurable.get("__pregel_runtime"), "context", _UNKNOWN), configurable)

    def _read(self, context: Any, configurable: Mapping[str, Any]) -> KnownValues:
        users = {name: value for name, value in configurable.items() if _is_the_users(name)}
        return KnownValues(
            context if "context" in self.reads and self.runtimes else None,
            users if "configurable" in self.reads else None,
        )

    def stand_ins(self, refuse: Refuse) -> dict[str, Any]:
        """Return the arguments of a speculative run; ``refuse`` is called where it uses anything else."""
        known = self.of_run()
        found: dict[str, Any] = {}
        for name in self.runtimes:
            values = {}
            if "context" in self.reads and known.context is not _UNKNOWN:
                values["context"] = known.context
            if known.configurable is not None:
                values["config"] = _known_config(f"{name}.config", known.configurable, refuse)
            runtime: Any = object.__new__(_runtime_class(self.runtime_type))
            object.__setattr__(runtime, "_of", (name, values, refuse))
            found[name] = runtime
        if self.config is not None and known.configurable is not None:
            found[self.config_keyword] = _known_config(self.config, known.configurable, refuse)
        return found


def _is_the_users(name: str) -> bool:
    """Whether an entry of ``configurable`` is fixed for the run, and not one of LangGraph's for a task."""
    return isinstance(name, str) and not name.startswith("__") and name not in _OF_A_TASK


@functools.cache
def _runtime_class(base: type) -> type:
    """Return a subclass of ``ToolRuntime`` of which only what is known can be read."""

    def read(self: Any, attribute: str) -> Any:
        if attribute == "__class__":
            return base
        name, values, refuse = object.__getattribute__(self, "_of")
        return values[attribute] if attribute in values else refuse(f"{name}.{attribute}")

    return type(base.__name__, (base,), {"__getattribute__": read})


class _KnownEntries(StandIn):
    """A mapping of which only the entries that ``is_known`` tells, by their keys, can be read."""

    def __init__(
        self, name: str, entries: Mapping[str, Any], is_known: Callable[[str], bool], refuse: Refuse
    ) -> None:
        super().__init__(functools.partial(refuse, name))
        object.__setattr__(self, "_of", (name, entries, is_known, refuse))

    def __getattribute__(self, attribute: str) -> Any:
        if attribute == "get":
            return lambda key, default=None: _entries(self, key).get(key, default)
        return super().__getattribute__(attribute)

    def __getitem__(self, key: str) -> Any:
        return _entries(self, key)[key]

    def __contains__(self, key: str) -> bool:
        return key in _entries(self, key)


def _known_config(name: str, configurable: Mapping[str, Any], refuse: Refuse) -> _KnownEntries:
    """Return a ``RunnableConfig`` of which only the user's entries of ``configurable`` can be read."""
    inner = _KnownEntries(f"{name}['configurable']", configurable, _is_the_users, refuse)
    return _KnownEntries(name, {"configurable": inner}, "configurable".__eq__, refuse)


def _entries(mapping: _KnownEntries, key: str) -> Mapping[str, Any]:
    """Return the entries if the one of ``key``, or that there is none, is known before the call."""
    name, entries, is_known, refuse = object.__getattribute__(mapping, "_of")
    if not is_known(key):
        refuse(f"{name}[{key!r}]")
    found: Mapping[str, Any] = entries
    return found
