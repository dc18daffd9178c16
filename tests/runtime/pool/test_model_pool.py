"""The model pool on runtimes that hold no model: loads, budget, idle time, errors."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import re
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentrt.errors import (
    ConfigurationError,
    ModelBudgetError,
    ModelFormatError,
    ModelLoadError,
    ModelTooLargeError,
    RuntimeClosedError,
)
from agentrt.runtime import ContextTable, LocalRuntime, OpeningStep, RuntimeConfig
from agentrt.runtime.engine.engine_status import EngineStatistics
from agentrt.runtime.pool.model_pool import ModelPool, PoolConfig
from agentrt.runtime.pool.pooled_model import ModelStatus, PooledModel
from agentrt.testing import run_in_virtual_time
from tests.patience import in_event_loop

SIZE = 100


@dataclasses.dataclass
class FakeContexts:
    """Saved contexts of a model."""

    model: str
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclasses.dataclass(eq=False)
class FakeRuntime:
    """What a pool needs of a runtime; each load samples one token."""

    model_id: str
    memory_bytes: int
    context_length: int = 512
    call_format: None = None
    closed: bool = False
    full_disk: bool = False

    def statistics(self) -> Any:
        zeros = {field.name: 0 for field in dataclasses.fields(EngineStatistics)}
        return SimpleNamespace(engine=EngineStatistics(**zeros | {"sampled_tokens": 1}))

    def close(self) -> None:
        self.closed = True

    def suspend(self) -> FakeContexts:
        self.close()
        if self.full_disk:
            raise OSError("No space left on device")
        return FakeContexts(self.model_id)


class Opener:
    """Opens fake runtimes; an opening can be held back, or fail."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.groups: set[Any] = set()
        self.contexts: list[Any] = []
        self.tables: dict[str, list[ContextTable]] = defaultdict(list)
        self.errors: list[Exception] = []
        self.made: list[FakeRuntime] = []
        self.memory_bytes = SIZE
        self.may_open = threading.Event()
        self.may_open.set()
        self.begun = threading.Event()

    def __call__(
        self,
        model: str,
        config: RuntimeConfig,
        *,
        on_step: Callable[[OpeningStep], None],
        group: Any,
        context_table: ContextTable,
        context_store: Any,
        contexts: Any = None,
    ) -> LocalRuntime:
        self.tables[model].append(context_table)
        self.opened.append(model)
        self.groups.add(group)
        self.contexts.append(contexts)
        self.begun.set()
        assert self.may_open.wait(30)
        on_step(OpeningStep("loading"))
        if self.errors:
            raise self.errors.pop()
        self.made.append(FakeRuntime(model, self.memory_bytes))
        return cast(LocalRuntime, self.made[-1])


@pytest.fixture
def opener() -> Opener:
    return Opener()


def pool_of(opener: Opener, names: str = "a b c", *, fit: int = 9, **settings: Any) -> ModelPool:
    """Return a pool of models of one size, of which ``fit`` fit the budget."""
    models = [PooledModel(name, RuntimeConfig(), (name,), SIZE) for name in names.split()]
    config = PoolConfig(memory_budget_bytes=fit * SIZE, **settings)
    return ModelPool(models, config, open_runtime=opener)


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test whose time passes at once."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        run_in_virtual_time(lambda: test(*arguments, **fixtures))

    return run


async def use(pool: ModelPool, name: str) -> LocalRuntime:
    """Send one request."""
    model = pool.find(name)
    assert model is not None
    with pool.hold(model):
        return await pool.load(model)


async def begun(opener: Opener) -> None:
    assert await asyncio.to_thread(opener.begun.wait, 30)


def loaded(pool: ModelPool) -> str:
    return " ".join(model.name for model in pool.models if model.status is ModelStatus.LOADED)


async def outcome(request: Awaitable[Any]) -> Any:
    (result,) = await asyncio.gather(request, return_exceptions=True)
    return result


@in_event_loop
async def test_requests_for_one_model_share_one_load(opener: Opener) -> None:
    pool = pool_of(opener)
    opener.may_open.clear()
    requests = [asyncio.create_task(use(pool, "a")) for _ in range(3)]
    await begun(opener)
    assert pool.models[0].status is ModelStatus.LOADING
    opener.may_open.set()
    first, *others = await asyncio.gather(*requests)
    assert all(other is first for other in others)
    assert opener.opened == ["a"]


@in_event_loop
async def test_a_loaded_model_is_used_while_another_one_loads(opener: Opener) -> None:
    pool = pool_of(opener)
    await use(pool, "a")
    opener.may_open.clear()
    opener.begun.clear()
    waiting = asyncio.create_task(use(pool, "b"))
    await begun(opener)
    assert (await use(pool, "a")).model_id == "a"  # without waiting: b may not be opened yet
    opener.may_open.set()
    assert (await waiting).model_id == "b"
    assert len(opener.groups) == 1  # so that background work of one pauses for users of the other


@pytest.mark.parametrize("cancelled", [1, 2])
@in_event_loop
async def test_a_cancelled_request_does_not_cancel_the_load(opener: Opener, cancelled: int) -> None:
    pool = pool_of(opener)
    opener.may_open.clear()
    requests = [asyncio.create_task(use(pool, "a")) for _ in range(2)]
    await begun(opener)
    for request in requests[:cancelled]:
        request.cancel()
        assert isinstance(await outcome(request), asyncio.CancelledError)
    opener.may_open.set()
    assert (await use(pool, "a")).model_id == "a"
    for request in requests[cancelled:]:
        assert (await request).model_id == "a"
    assert opener.opened == ["a"]
    assert not pool.models[0].requests


@pytest.mark.parametrize("error", [ModelFormatError("damaged. Copy it."), MemoryError("no memory.")])
@in_event_loop
async def test_a_failed_load_fails_its_requests_and_is_tried_again(opener: Opener, error: Exception) -> None:
    pool = pool_of(opener)
    opener.errors.append(error)
    failures = await asyncio.gather(*(outcome(use(pool, "a")) for _ in range(2)))
    assert failures[0] is not failures[1]
    for failure in failures:
        assert isinstance(failure, ModelLoadError)
        assert failure.model == "a"
        assert str(error) in str(failure)
    assert opener.opened == ["a"]
    assert (await use(pool, "a")).model_id == "a"


@in_event_loop
async def test_the_least_recently_used_idle_model_makes_room(opener: Opener) -> None:
    pool = pool_of(opener, "a b c", fit=2)
    a, b, _ = pool.models
    await use(pool, "a")
    await use(pool, "b")
    runtime = b.runtime
    a.last_used, b.last_used = 2.0, 1.0
    await use(pool, "c")
    assert loaded(pool) == "a c"
    assert runtime.closed
    with pool.hold(a):  # in use, although the other one was used later
        await use(pool, "b")
        assert loaded(pool) == "a b"


@in_event_loop
async def test_a_model_that_does_not_fit_beside_those_in_use_is_refused(opener: Opener) -> None:
    pool = pool_of(opener, "a b", fit=1)
    with pool.hold(pool.models[0]):
        await pool.load(pool.models[0])
        refused = await outcome(use(pool, "b"))
        assert isinstance(refused, ModelBudgetError)
        assert "the model 'b' needs" in str(refused)
        assert loaded(pool) == "a"
    assert (await use(pool, "b")).model_id == "b"
    assert loaded(pool) == "b"


@in_event_loop
async def test_the_budget_holds_for_what_models_really_need(opener: Opener) -> None:
    pool = pool_of(opener, "a b", fit=2)
    await use(pool, "a")
    opener.memory_bytes = 2 * SIZE  # estimated as SIZE
    await use(pool, "b")
    assert loaded(pool) == "b"
    await use(pool, "a")
    opener.memory_bytes = 3 * SIZE
    pool.models[1].memory_bytes = SIZE
    assert isinstance(await outcome(use(pool, "b")), ModelTooLargeError)
    assert loaded(pool) == ""
    assert pool.models[1].runtime is None


@in_event_loop
async def test_a_model_larger_than_the_budget_evicts_no_other(opener: Opener) -> None:
    pool = pool_of(opener, "a b", fit=1)
    await use(pool, "a")
    opener.memory_bytes = 2 * SIZE  # estimated as SIZE: loading it once finds out
    assert isinstance(await outcome(use(pool, "b")), ModelTooLargeError)
    opener.memory_bytes = SIZE
    kept = await use(pool, "a")
    opener.opened.clear()
    refused = await outcome(use(pool, "b"))
    assert isinstance(refused, ModelTooLargeError)
    assert str(refused).startswith("b needs 1 MiB")
    assert "--memory-budget-mib 1 " in str(refused)
    assert await use(pool, "a") is kept
    assert opener.opened == []


def test_the_first_model_must_fit_the_budget_once_its_need_is_known(opener: Opener) -> None:
    opener.memory_bytes = 2**31 + 1  # estimated as SIZE
    pool = pool_of(opener, "a", fit=9)
    with pytest.raises(ConfigurationError, match=r"a needs 2049 MiB .* --memory-budget-mib 2049 or more "):
        pool.open_first()
    assert opener.made[0].closed
    assert loaded(pool) == ""


@in_virtual_time
async def test_an_idle_model_is_unloaded_after_its_time(opener: Opener) -> None:
    pool = pool_of(opener, "a", idle_unload_s=60)
    (model,) = pool.models
    async with pool.running():
        with pool.hold(model):
            runtime = await pool.load(model)
            await asyncio.sleep(1000)
        await asyncio.sleep(59)
        await use(pool, "a")
        await asyncio.sleep(59)
        assert model.status is ModelStatus.LOADED
        await asyncio.sleep(2)
        assert model.status is not ModelStatus.LOADED
        again = await use(pool, "a")  # waits until it is unloaded, and loads it
    assert runtime.closed
    assert again is not runtime
    assert opener.opened == ["a", "a"]
    assert model.count("sampled_tokens") == 2


@in_virtual_time
async def test_a_request_in_the_moment_an_unload_ends_loads_the_model_again(opener: Opener) -> None:
    """The request runs behind the task's last step, and before the callbacks of its end."""
    pool = pool_of(opener, "a", idle_unload_s=60)
    (model,) = pool.models
    unloaded = asyncio.get_running_loop().create_future()
    set_unloaded = model.set_unloaded

    def set_unloaded_and_wake() -> None:
        set_unloaded()
        unloaded.set_result(None)

    model.set_unloaded = set_unloaded_and_wake
    async with pool.running():
        await use(pool, "a")
        await unloaded
        await use(pool, "a")
    assert opener.opened == ["a", "a"]


@in_virtual_time
async def test_a_model_that_no_request_has_used_is_unloaded_as_well(opener: Opener) -> None:
    pool = pool_of(opener, idle_unload_s=60)
    pool.open_first()
    async with pool.running():
        await asyncio.sleep(61)
        assert pool.models[0].status is not ModelStatus.LOADED
    assert pool.models[0].status is ModelStatus.UNLOADED


@in_event_loop
async def test_a_model_is_unloaded_when_asked(opener: Opener) -> None:
    pool = pool_of(opener, "a")
    (model,) = pool.models
    assert await pool.unload(model), "it is not loaded"
    runtime = await use(pool, "a")
    with pool.hold(model):
        assert not await pool.unload(model)
        assert not runtime.closed
    assert await asyncio.gather(pool.unload(model), pool.unload(model)) == [True, True]
    assert runtime.closed
    assert await use(pool, "a") is not runtime


@in_event_loop
async def test_stopping_ends_a_load(opener: Opener) -> None:
    pool = pool_of(opener)
    opener.may_open.clear()
    async with pool.running():
        requests = [asyncio.create_task(use(pool, name)) for name in "ab"]
        await begun(opener)
        asyncio.get_running_loop().call_soon(opener.may_open.set)
    for request in requests:
        assert isinstance(await outcome(request), RuntimeClosedError)
    assert opener.opened == ["a"]
    assert isinstance(await outcome(use(pool, "c")), RuntimeClosedError)


def test_names(opener: Opener) -> None:
    pool = pool_of(opener)
    assert pool.find(None) is pool.models[0]
    assert pool.find("b") is pool.models[1]
    assert pool.find("d") is None
    with pytest.raises(ConfigurationError, match=r"two models are named 'a'.*--served-model-name NAME=MODEL"):
        pool_of(opener, "a b a")
    with pytest.raises(ConfigurationError, match="a pool needs a model"):
        pool_of(opener, "")


def test_a_budget_too_small_for_one_of_the_models(opener: Opener) -> None:
    models = [PooledModel("large", RuntimeConfig(), ("large",), 2**31)]
    with pytest.raises(ConfigurationError, match=r"large needs 2048 MiB .* --memory-budget-mib 4096 "):
        ModelPool(models, PoolConfig(memory_budget_bytes=2**30), open_runtime=opener)


@in_event_loop
async def test_contexts_are_saved_until_the_model_is_loaded_again(opener: Opener) -> None:
    pool = pool_of(opener, "a b", fit=1)
    a, b = pool.models
    await use(pool, "a")
    await use(pool, "b")
    saved = a.contexts
    assert (saved.model, saved.closed) == ("a", False)
    opener.errors.append(MemoryError("no memory."))
    assert isinstance(await outcome(use(pool, "a")), ModelLoadError)
    assert a.contexts is saved  # for the next try
    await use(pool, "a")
    assert opener.contexts[-1] is saved
    assert a.contexts is None
    assert saved.closed
    of_b = b.contexts
    pool.close()
    assert of_b.closed


@in_event_loop
async def test_a_model_is_unloaded_although_its_contexts_cannot_be_saved(opener: Opener) -> None:
    pool = pool_of(opener, "a b", fit=1)
    cast(Any, await use(pool, "a")).full_disk = True
    assert (await use(pool, "b")).model_id == "b"
    assert pool.models[0].contexts is None
    assert loaded(pool) == "b"


@in_event_loop
async def test_a_model_keeps_its_table_of_contexts(opener: Opener) -> None:
    pool = pool_of(opener, "a b", fit=1)
    made = pool.models[0].context_table.create("app")
    for name in "aba":
        await use(pool, name)
    first, second = opener.tables["a"]
    assert first is second is pool.models[0].context_table
    assert opener.tables["b"] == [pool.models[1].context_table]
    assert first.get("app", made.id) == made


@pytest.mark.check
@pytest.mark.real_model
def test_the_budgets_that_the_errors_name_suffice() -> None:
    def advised(mib: int) -> int:
        with (
            pytest.raises(ConfigurationError, match="--memory-budget-mib") as raised,
            ModelPool([PooledModel.find("nano")], PoolConfig(memory_budget_bytes=mib * 2**20)) as pool,
        ):
            pool.open_first()
        found = re.search(r"--memory-budget-mib (\d+)", str(raised.value))
        return int(found[1])

    estimated = advised(1)
    needed = advised(estimated // 2 + 1)  # enough for what is known before it is loaded
    for mib in (estimated, needed):
        with ModelPool([PooledModel.find("nano")], PoolConfig(memory_budget_bytes=mib * 2**20)) as pool:
            pool.open_first()
