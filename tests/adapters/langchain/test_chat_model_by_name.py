"""Chat models that name their model: shared runtimes, pickling, serialization, `init_chat_model`."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import multiprocessing
import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.chat_models import init_chat_model as langchain_init_chat_model
from langchain_core.load import dumpd, load

from agentrt.adapters.langchain import ChatAgentRT, init_chat_model, speculate
from agentrt.adapters.langchain.chat_model import named_runtimes
from agentrt.errors import ConfigurationError, ModelNotFoundError
from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.testing import ScriptedSpeculator
from tests.adapters.langchain.chats import HELLO

pytestmark = pytest.mark.real_model


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """No runtime of another test is open."""
    yield
    named_runtimes._kept.clear()
    gc.collect()


@pytest.fixture
def chat() -> ChatAgentRT:
    return ChatAgentRT(model="nano", max_tokens=8, seed=3, priority=Priority.PROACTIVE, stop=["zzz"])


def test_chat_models_of_one_name_share_a_runtime(chat: ChatAgentRT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalRuntime, "open", lambda *args, **options: pytest.fail("it was opened again"))
    assert ChatAgentRT(model="nano").runtime is chat.runtime
    assert init_chat_model("agentrt:nano").runtime is chat.runtime
    profile: Any = chat.profile
    assert (profile["max_input_tokens"], profile["tool_calling"]) == (chat.runtime.context_length, True)


@pytest.mark.check
def test_a_runtime_that_was_closed_is_opened_again(chat: ChatAgentRT) -> None:
    chat.runtime.close()
    assert chat.runtime.closed
    again = ChatAgentRT(model="nano", max_tokens=4)
    assert not again.runtime.closed
    assert again.invoke(HELLO).text


def test_the_runtime_closes_with_the_last_chat_model() -> None:
    chat = ChatAgentRT(model="nano")
    runtime = weakref.ref(chat.runtime)
    copied = chat.model_copy()
    del chat
    gc.collect()
    assert runtime() is not None
    del copied
    gc.collect()
    assert runtime() is None


@pytest.mark.check
def test_a_path_is_the_same_model_in_every_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(DRAFT_DIRECTORY.parent)
    chat = ChatAgentRT(model=DRAFT_DIRECTORY.name)
    monkeypatch.chdir(tmp_path)
    assert ChatAgentRT(model=str(DRAFT_DIRECTORY)).runtime is chat.runtime
    assert pickle.loads(pickle.dumps(chat)).runtime is chat.runtime
    with pytest.raises(ModelNotFoundError):
        ChatAgentRT(model=DRAFT_DIRECTORY.name)


def answer(chat: Any) -> tuple[str, Any]:
    """Run in another process."""
    return chat.invoke(HELLO).text, chat._identifying_params


@pytest.mark.check
def test_a_pickled_chat_model_answers_in_another_process(chat: ChatAgentRT) -> None:
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        text, params = pool.submit(answer, chat).result(timeout=200)
    assert text == chat.invoke(HELLO).text
    assert params == chat._identifying_params


@pytest.mark.check
def test_a_copy_by_pickle_has_all_fields(chat: ChatAgentRT) -> None:
    changed = chat.model_copy(update={"temperature": 0.5})
    copied = pickle.loads(pickle.dumps(changed))
    assert copied._identifying_params == changed._identifying_params
    assert copied.runtime is chat.runtime
    bound = pickle.loads(pickle.dumps(changed.bind(stop=["x"])))
    assert bound.kwargs == {"stop": ["x"]}
    assert bound.bound.temperature == 0.5
    assert copy.deepcopy(changed).runtime is copy.copy(changed).runtime is chat.runtime


@pytest.mark.check
def test_unpickling_opens_a_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(ChatAgentRT(model="nano"))
    gc.collect()
    opened: list[Any] = []
    real = LocalRuntime.open
    monkeypatch.setattr(LocalRuntime, "open", lambda model: opened.append(model) or real(model))
    for _ in range(2):  # a worker gets one with each task, and has none between
        pickle.loads(data)
        gc.collect()
    assert opened == ["nano"]


@pytest.mark.check
def test_a_given_runtime_cannot_be_pickled(exact_runtime: LocalRuntime) -> None:
    chat = ChatAgentRT(runtime=exact_runtime)
    with pytest.raises(ConfigurationError, match=r"ChatAgentRT\(model="):
        pickle.dumps(chat)
    assert copy.deepcopy(chat).runtime is exact_runtime


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_serialization(chat: ChatAgentRT) -> None:
    stored = dumpd(chat)
    assert stored["id"] == ["agentrt", "adapters", "langchain", "ChatAgentRT"]
    assert "runtime" not in stored["kwargs"]
    loaded = load(stored, allowed_objects=[ChatAgentRT], valid_namespaces=["agentrt"])
    assert loaded._identifying_params == chat._identifying_params
    assert loaded.runtime is chat.runtime
    assert dumpd(speculate(chat, ScriptedSpeculator())) == stored


def test_init_chat_model(chat: ChatAgentRT) -> None:
    for made in (
        init_chat_model("agentrt:nano", temperature=0.5, timeout=60, max_retries=1),
        init_chat_model("nano", model_provider="agentrt", temperature=0.5),
    ):
        assert isinstance(made, ChatAgentRT)
        assert (made.model, made.temperature, made.runtime) == ("nano", 0.5, chat.runtime)
    other = init_chat_model("openai:gpt-5", api_key="none")
    assert type(other) is type(langchain_init_chat_model("openai:gpt-5", api_key="none"))
    with pytest.raises(ModelNotFoundError):
        init_chat_model("agentrt:no-such-model")
    with pytest.raises(ConfigurationError, match="ConfigurableField"):
        init_chat_model("agentrt:nano", configurable_fields=["temperature"])
    with pytest.raises(ValueError, match="provider"):
        init_chat_model("no-such-model")


@pytest.mark.check
def test_its_representation_has_the_model_and_whether_it_is_open() -> None:
    runtime = LocalRuntime.open("nano")
    model = ChatAgentRT(runtime=runtime, temperature=0.5)
    assert repr(runtime) == "<LocalRuntime nano, open>"
    assert repr(model) == "ChatAgentRT(model='nano', temperature=0.5, runtime=<LocalRuntime nano, open>)"
    runtime.close()
    assert repr(runtime) == "<LocalRuntime nano, closed>"


def test_no_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for make in (lambda: ChatAgentRT(model=""), lambda: init_chat_model("agentrt:")):
        with pytest.raises(ModelNotFoundError, match="'' names no model"):
            make()
