"""What the settings of contexts make of their folder."""

from __future__ import annotations

import os
import stat
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ConfigurationError, ContextKeyError, ContextQuotaError
from agentrt.runtime import RuntimeConfig
from agentrt.runtime.contexts.opening import open_context_store
from agentrt.runtime.kv.store.chunk_files import Chunk
from agentrt.runtime.kv.store.folder import KeyFile
from agentrt.runtime.kv.store.store import ContextStore


def opened(folder: Path, model: str = "a model", **settings: Any) -> ContextStore:
    store = open_context_store(RuntimeConfig(context_folder=folder, **settings), model, lambda: b"its KV")
    assert store is not None
    return store


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


@pytest.mark.parametrize("key", [str, Path])
def test_a_key_file_encrypts_the_folders_of_all_models(tmp_path: Path, key: type) -> None:
    folder, file = tmp_path / "contexts", tmp_path / "key"
    for model in ("a model", "another model"):
        with opened(folder, model, context_key=key(file)) as store:
            store.create("notes", "a").append_text(b"my text")
    assert b"my text" not in everything(folder)
    for model in ("a model", "another model"):
        with opened(folder, model, context_key=key(file)) as store:
            assert store.get("notes", "a").read_text() == [b"my text"]
        with pytest.raises(ContextKeyError, match="there is no key"):
            opened(folder, model)


@pytest.mark.parametrize("first", ["plain", "sealed"])
@pytest.mark.parametrize("second", ["plain", "sealed", "other", "missing"])
def test_all_models_of_a_folder_are_encrypted_alike(tmp_path: Path, first: str, second: str) -> None:
    keys = {name: tmp_path / name for name in ("sealed", "other", "missing")}
    KeyFile(keys["other"]).create()
    folder = tmp_path / "contexts"
    opened(folder, context_key=keys.get(first)).close()
    before = everything(folder)
    if first == second:
        opened(folder, "another model", context_key=keys.get(second)).close()
        return
    reason = {
        ("sealed", "plain"): "is encrypted, and there is no key",
        ("sealed", "missing"): "is encrypted, and there is no key",
        ("sealed", "other"): "is encrypted with another key",
    }.get((first, second), "is not encrypted")
    with pytest.raises(ContextKeyError, match=f"{reason}.*use the same context_key"):
        opened(folder, "another model", context_key=keys.get(second))
    assert everything(folder) == before
    assert not keys["missing"].exists()
    opened(folder, context_key=keys.get(first)).close()
    opened(tmp_path / "of its own", "another model", context_key=keys.get(second)).close()


@pytest.mark.parametrize("damage", ["empty", "changed", "folder"])
def test_a_folder_that_is_no_store_decides_nothing(tmp_path: Path, damage: str) -> None:
    opened(tmp_path, context_key=tmp_path / "key").close()
    (file,) = tmp_path.glob("*/contexts.sqlite")
    content = bytearray(file.read_bytes())
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage == "empty":
        file.touch()
    else:
        content[5] = 9
        file.write_bytes(content)
    opened(tmp_path, "another model").close()


def test_the_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, str] = {}
    keyring = types.ModuleType("keyring")
    keyring.errors = types.SimpleNamespace(KeyringError=KeyError)
    keyring.get_password = lambda service, name: kept.get(name)
    keyring.set_password = lambda service, name, value: kept.update({name: value})
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    with opened(tmp_path, context_key="keyring") as store:
        store.create("notes", "a").append_text(b"my text")
    assert kept.keys() == {"contexts"}
    assert b"my text" not in everything(tmp_path)
    with opened(tmp_path, context_key="keyring") as store:
        assert store.get("notes", "a").read_text() == [b"my text"]


def test_a_key_without_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="context_key encrypts a context_folder"):
        RuntimeConfig(context_key=tmp_path / "key")


def test_limits_of_apps_and_of_the_folder(tmp_path: Path) -> None:
    chunks = [Chunk(number.to_bytes(16, "big"), 0, bytes(1000)) for number in range(9)]
    with opened(tmp_path, context_app_bytes=3000, context_disk_bytes=4000) as store:
        assert store.create("notes", "a").append_chunks(chunks) == 2
        assert store.create("mail", "a").append_chunks(chunks[:1]) == 1
        assert store.create("mail", "b").append_chunks(chunks[1:2]) == 1  # as KV of notes goes
        assert store.locate("notes", chunks[0].block_hash) is None
        store.get("notes", "a").append_text(bytes(3000))
        with pytest.raises(ContextQuotaError, match="context_app_bytes=3000"):
            store.create("notes", "b")


@pytest.mark.parametrize("setting", ["context_app_bytes", "context_disk_bytes"])
def test_a_limit_that_is_reached_is_the_setting_that_the_error_names(tmp_path: Path, setting: str) -> None:
    with opened(tmp_path, **{setting: 3000}) as store:
        store.create("notes", "a").append_text(bytes(3000))
        with pytest.raises(ContextQuotaError, match=f"limit {setting}=3000 ") as caught:
            store.create("notes", "b")
    assert RuntimeConfig(**{caught.value.quota: caught.value.limit}) == RuntimeConfig(**{setting: 3000})


@pytest.mark.parametrize("name", ["profile_folder", "history_folder", "context_folder", "context_key"])
def test_paths_of_settings_are_expanded_and_not_empty(name: str) -> None:
    others = {"drafts": True, "context_folder": "contexts"}
    config = RuntimeConfig(**{**others, name: "~/x"})
    assert getattr(config, name) == Path.home() / "x"
    with pytest.raises(ConfigurationError, match=f"{name}.*is empty"):
        RuntimeConfig(**{**others, name: ""})


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_the_folders_of_all_models_are_private(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "outer" / "contexts"
    before = os.umask(0o022)
    try:
        opened(folder).close()
    finally:
        os.umask(before)
    for each in (folder, *folder.iterdir()):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert not caplog.records
    folder.chmod(0o755)
    opened(folder).close()
    assert f"Run: chmod 700 {folder}" in caplog.text
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
