"""Which model a chat has that names none."""

from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from agentrt.cli.chat import first_model
from agentrt.cli.chat.first_model import model_of_chat, recommend
from agentrt.errors import ModelDownloadError
from agentrt.runtime.model.hub import pulled
from agentrt.runtime.model.hub.recommended import RECOMMENDED
from agentrt.runtime.xpu import machine

GB = 10**9


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Folders of a user who has chosen nothing, on a machine for which the model of 1.5B is the largest."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "available_memory", lambda: 8 * GB)
    monkeypatch.setattr(machine, "measure_read_bandwidth", lambda: 10.0 * GB)
    return tmp_path


def answer(monkeypatch: pytest.MonkeyPatch, agreed: bool | BaseException) -> list[str]:
    """Answer the question so; return the questions that are asked."""
    asked: list[str] = []

    def confirm(question: str, **options: object) -> bool:
        asked.append(question)
        if isinstance(agreed, BaseException):
            raise agreed
        return agreed

    monkeypatch.setattr(typer, "confirm", confirm)
    return asked


def download(monkeypatch: pytest.MonkeyPatch, home: Path, error: BaseException | None = None) -> list[str]:
    """Have downloads succeed, or fail with ``error``; return their names."""
    names: list[str] = []

    def pull(name: str) -> None:
        names.append(name)
        if error is not None:
            raise error
        (home / "model.gguf").touch()
        pulled.remember_pulled(name, home / "model.gguf")

    monkeypatch.setattr(first_model, "pull", pull)
    return names


def test_a_model_is_downloaded_once_if_the_user_agrees(
    monkeypatch: pytest.MonkeyPatch, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, names = answer(monkeypatch, True), download(monkeypatch, home)
    model = model_of_chat(asks=True)
    assert names == [model] == ["Qwen/Qwen2.5-1.5B-Instruct-GGUF:q4_k_m"]
    said = capsys.readouterr().err
    assert "1.1 GB, licence Apache 2.0; some 9 tokens a second" in said
    assert [model_of_chat(asks=True), model_of_chat(asks=False)] == [model, model]
    assert len(asked) == len(names) == 1


@pytest.mark.parametrize(
    ("agreed", "error", "questions"),
    [
        (False, None, 1),  # which is remembered
        (typer.Abort(), None, 2),
        (True, ModelDownloadError("no network"), 2),
        (True, KeyboardInterrupt(), 2),
    ],
)
def test_without_a_download_the_user_is_asked_again_except_after_a_no(
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    agreed: bool | BaseException,
    error: BaseException | None,
    questions: int,
) -> None:
    asked, names = answer(monkeypatch, agreed), download(monkeypatch, home, error)
    assert [model_of_chat(asks=True) for _ in range(2)] == ["nano", "nano"]
    assert (len(asked), len(names)) == (questions, 0 if error is None else 2)


def test_without_a_terminal_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, True)
    assert model_of_chat(asks=False) == "nano"
    assert not asked


def test_what_was_deleted_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    asked, _ = answer(monkeypatch, True), download(monkeypatch, home)
    model = model_of_chat(asks=True)
    (home / "model.gguf").unlink()
    assert model_of_chat(asks=False) == "nano"
    assert model_of_chat(asks=True) == model
    assert len(asked) == 2


@given(st.none() | st.integers(0, 200 * GB), st.floats(GB, 500 * GB))
def test_what_is_recommended_fits_and_a_better_machine_gets_no_smaller_one(
    memory: int | None, rate: float
) -> None:
    found = recommend(memory, rate)
    if found is None:
        assert memory is not None
        assert memory < GB
        return
    model, tokens = found
    assert memory is None or 2 * model.gigabytes * GB <= memory
    assert "reasons first" not in model.good_for
    assert tokens == pytest.approx(rate / (model.gigabytes * GB))
    better = recommend(None, 2 * rate)
    assert better is not None
    assert RECOMMENDED.index(better[0]) >= RECOMMENDED.index(model)
