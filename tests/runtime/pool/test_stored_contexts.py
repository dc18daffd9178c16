"""Contexts and responses are found whichever model has them, in the same steps whoever's they are."""

from __future__ import annotations

import pytest

from agentrt.errors import ContextNotFoundError, ContextStoreError
from agentrt.runtime import RuntimeConfig
from agentrt.runtime.contexts.response_chains import ResponseChains
from agentrt.runtime.kv.block_hashes import PrefixSalts
from agentrt.runtime.kv.saved_contexts import SavedContexts
from agentrt.runtime.pool.pooled_model import PooledModel, delete_contexts, find_context, find_response
from tests.runtime.conftest import executed_lines

UNKNOWN = "ctx_" + "0" * 48


@pytest.fixture
def models() -> list[PooledModel]:
    return [PooledModel(name, RuntimeConfig(), [name], 0) for name in ("one", "two", "three")]


def store(model: PooledModel, app: str, id: str) -> None:
    chains = ResponseChains(model.context_table)
    turn = chains.begin(app, chains.context_for(app, None))
    turn.commit([], 1, {"id": id})


def test_a_context_is_found_whichever_model_has_it(models: list[PooledModel]) -> None:
    made = [model.context_table.create("mine") for model in models]
    for model, context in zip(models, made, strict=True):
        assert find_context(models, "mine", context.id) == (model, context)
    with pytest.raises(ContextNotFoundError):
        find_context(models, "mine", UNKNOWN)


def test_a_response_is_found_whichever_model_has_it(models: list[PooledModel]) -> None:
    for model in models:
        store(model, "mine", f"resp_{model.name}")
    for model in models:
        found = find_response(models, "mine", f"resp_{model.name}")
        assert found[1].body["id"] == f"resp_{model.name}"
    assert find_response(models, "mine", "resp_four") is None


def test_anothers_is_sought_in_the_same_steps_as_an_unknown_one(models: list[PooledModel]) -> None:
    foreign = [model.context_table.create("other").id for model in models]
    for model in models:
        store(model, "other", f"resp_{model.name}")

    def context(id: str) -> None:
        with pytest.raises(ContextNotFoundError):
            find_context(models, "mine", id)

    def response(id: str) -> None:
        assert find_response(models, "mine", id) is None

    for look_up, ids in ((context, [*foreign, UNKNOWN]), (response, ["resp_one", "resp_three", "resp_four"])):
        look_up(ids[0])  # the first call caches what later ones do not
        assert len({executed_lines(lambda id=id, look_up=look_up: look_up(id)) for id in ids}) == 1


def test_everything_of_an_app_is_deleted_in_all_models(models: list[PooledModel]) -> None:
    salts = PrefixSalts()
    models[1].contexts = SavedContexts.save(salts, "model", {}, [])  # it was unloaded
    before = [salts.salt_for(app) for app in ("mine", "other")]
    for model in models:
        for app in ("mine", "other"):
            model.context_table.create(app)
            store(model, app, f"resp_{app}")
    delete_contexts(models, "mine")
    assert [len(model.context_table.contexts("mine")) for model in models] == [0, 0, 0]
    assert [len(model.context_table.contexts("other")) for model in models] == [2, 2, 2]
    renewed = [salts.salt_for(app) for app in ("mine", "other")]
    assert [old == new for old, new in zip(before, renewed, strict=True)] == [False, True]
    models[1].drop_contexts()


def test_models_whose_contexts_can_be_deleted_lose_them_when_another_fails(
    models: list[PooledModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(app: str) -> None:
        raise ContextStoreError("the disk is read-only. Make it writable.")

    for model in models:
        model.context_table.create("mine")
    monkeypatch.setattr(models[0].context_table, "delete_all", fail)
    with pytest.raises(ContextStoreError, match="read-only"):
        delete_contexts(models, "mine")
    assert [len(model.context_table.contexts("mine")) for model in models] == [1, 0, 0]
