"""What the settings of contexts make of their folder; fingerprints of what keys and values depend on."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ConfigurationError, ContextKeyError, ContextQuotaError
from agentrt.runtime import RuntimeConfig
from agentrt.runtime.contexts.opening import kv_fingerprint, open_context_store
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


@pytest.mark.parametrize("setting", ["context_app_bytes", "context_disk_bytes"])
def test_a_limit_that_is_reached_is_the_setting_that_the_error_names(tmp_path: Path, setting: str) -> None:
    with opened(tmp_path, **{setting: 3000}) as store:
        store.create("notes", "a").append_text(bytes(3000))
        with pytest.raises(ContextQuotaError, match=f"limit {setting}=3000 ") as caught:
            store.create("notes", "b")
    assert RuntimeConfig(**{caught.value.quota: caught.value.limit}) == RuntimeConfig(**{setting: 3000})


@pytest.mark.parametrize("name", ["profile_folder", "history_folder", "context_folder", "context_key"])
def test_paths_of_settings_are_expanded_and_not_empty(name: str) -> None:
    with pytest.raises(ConfigurationError, match="context_key encrypts a context_folder"):
        RuntimeConfig(context_key="~/key")
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


SIZE = 1_000_000


def test_every_fact_counts_and_no_folder(tmp_path: Path) -> None:
    model, other, moved = tmp_path / "model.gguf", tmp_path / "other.gguf", tmp_path / "b" / "model.gguf"
    moved.parent.mkdir()
    for file in (model, other, moved):
        file.write_bytes(bytes(SIZE))
    assert kv_fingerprint([model], precision="u8") == kv_fingerprint([moved], precision="u8")
    facts = [
        kv_fingerprint([model]),
        kv_fingerprint([other]),
        kv_fingerprint([model, other]),
        kv_fingerprint([model], precision="u8"),
        kv_fingerprint([model], precision="f16"),
        kv_fingerprint([model], precision="u8", tokenizer=b"1"),
        kv_fingerprint([model], precision="u8", tokenizer=b"2"),
        kv_fingerprint([model], layout=(2, 128)),
        kv_fingerprint([model], layout=(2, 64)),
    ]
    model.write_bytes(bytes(SIZE + 1))
    facts.append(kv_fingerprint([model]))
    for at in (0, SIZE // 2, SIZE - 1):
        changed = bytearray(SIZE)
        changed[max(0, at - 9000) : at + 9000] = b"x" * len(changed[max(0, at - 9000) : at + 9000])
        model.write_bytes(changed)
        facts.append(kv_fingerprint([model]))
    assert len(set(facts)) == len(facts)


def test_short_files_are_read_whole(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    found = set()
    for at in range(10):
        model.write_bytes(bytes(at) + b"x" + bytes(9 - at))
        found.add(kv_fingerprint([model]))
    model.write_bytes(b"")
    found.add(kv_fingerprint([model]))
    assert len(found) == 11
