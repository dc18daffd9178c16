"""Encrypted stores: nothing is readable without the key, and a wrong key changes nothing."""

from __future__ import annotations

import os
import sqlite3
import sys
import types
from contextlib import closing
from pathlib import Path

import pytest

from agentrt.errors import ContextKeyError, MissingExtraError
from agentrt.runtime.kv.store.folder import KeyFile, KeyringKey, KeySource
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, chunk, contents


def fill(folder: Path, key: KeySource | None) -> None:
    with ContextStore(folder, FINGERPRINT, key=key) as store:
        context = store.create("my-app", "my-thread", {"title": "my-title"})
        context.append_text(b"my-text")
        context.append_chunks([chunk(77, 64)])


def snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_nothing_can_be_read_without_the_key(tmp_path: Path) -> None:
    words = [b"my-app", b"my-thread", b"my-title", b"my-text", chunk(77, 64).payload, chunk(77).block_hash]
    for name, key, readable in (
        ("plain", None, True),
        ("sealed", KeyFile(tmp_path / "key"), False),
    ):
        fill(tmp_path / name, key)
        everything = b"".join(snapshot(tmp_path / name).values())
        assert [word in everything for word in words] == [readable] * len(words)
        with ContextStore(tmp_path / name, FINGERPRINT, key=key) as store:
            assert contents(store, ("my-app",)) == {
                "my-app": {"my-thread": ([b"my-text"], {chunk(77).block_hash})}
            }
            assert store.get("my-app", "my-thread").header == {"title": "my-title"}


def test_equal_contents_are_sealed_differently(tmp_path: Path) -> None:
    with ContextStore(tmp_path / "contexts", FINGERPRINT, key=KeyFile(tmp_path / "key")) as store:
        for id in "ab":
            context = store.create("notes", id)
            context.append_text(b"text" * 20)
            context.append_text(b"text" * 20)
        store.get("notes", "a").append_chunks([chunk(1, 80, level) for level in (1, 2)][:1])
        store.create("mail", "a").append_chunks([chunk(1, 80)])
        sealed = [record for (record,) in store._database.execute("SELECT record FROM turn")]
    sealed += [file.read_bytes() for file in (tmp_path / "contexts").glob("*.chunks")]
    pieces = [each[at : at + 8] for each in sealed for at in range(len(each) - 8)]
    assert len(pieces) == len(set(pieces)) > 500


@pytest.mark.parametrize("damaged", [False, True])
def test_a_wrong_key_changes_nothing(tmp_path: Path, damaged: bool) -> None:
    """Where the secrets are damaged, too, the contexts tell it, and are not set aside as damaged."""
    folder, plain, missing = tmp_path / "contexts", tmp_path / "plain", tmp_path / "missing"
    fill(folder, KeyFile(tmp_path / "key"))
    fill(plain, None)
    if damaged:
        with closing(sqlite3.connect(folder / "contexts.sqlite")) as database, database:
            database.execute("UPDATE setting SET value = CAST('x' AS BLOB) WHERE name = 'secrets'")
    KeyFile(tmp_path / "other").create()
    before = snapshot(folder)
    unknown = "no context was written with this key"
    for opened, key, message in (
        (folder, KeyFile(tmp_path / "other"), unknown if damaged else "is encrypted with another key"),
        (folder, None, unknown if damaged else "is encrypted, and there is no key"),
        (folder, KeyFile(missing), f"the key file {missing} is missing. Restore it"),
        (plain, KeyFile(tmp_path / "key"), "is not encrypted"),
    ):
        with pytest.raises(ContextKeyError, match=message):
            ContextStore(opened, FINGERPRINT, key=key)
    assert snapshot(folder) == before
    assert not missing.exists()
    with ContextStore(folder, FINGERPRINT, key=KeyFile(tmp_path / "key")) as store:
        assert contents(store, ("my-app",))["my-app"] == {
            "my-thread": ([b"my-text"], set() if damaged else {chunk(77).block_hash})
        }


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "contexts", KeyFile(tmp_path / "key"))
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(ContextKeyError, match=r"other users may read.*chmod 600"):
        ContextStore(tmp_path / "contexts", FINGERPRINT, key=KeyFile(tmp_path / "key"))


@pytest.mark.parametrize("content", [b"", b"ab" * 31, b"xy" * 32, "ü".encode() * 64])
def test_a_key_file_with_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ContextKeyError, match="Restore it"):
        ContextStore(tmp_path / "contexts", FINGERPRINT, key=KeyFile(tmp_path / "key"))


@pytest.mark.skipif(os.name != "posix", reason="FIFOs of POSIX")
def test_a_key_file_that_is_no_file_of_the_user(tmp_path: Path) -> None:
    """None of them is waited for, or replaced by a new key."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("fifo", "dangling", "zero"):
        with pytest.raises(ContextKeyError, match=f"the key file {tmp_path / name} cannot be used"):
            ContextStore(tmp_path / "contexts", FINGERPRINT, key=KeyFile(tmp_path / name))
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(ContextKeyError, match="cannot be created"):
        ContextStore(tmp_path / "contexts", FINGERPRINT, key=KeyFile(tmp_path / "no" / "key"))


def test_the_keyring_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str], str] = {}

    class KeyringError(Exception):
        pass

    def locked(*arguments: str) -> str:
        raise KeyringError("the keyring is locked")

    keyring = types.ModuleType("keyring")
    keyring.errors = types.SimpleNamespace(KeyringError=KeyringError)
    keyring.get_password = lambda service, name: kept.get((service, name))
    keyring.set_password = lambda service, name, value: kept.update({(service, name): value})
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    fill(tmp_path, KeyringKey("laptop"))
    assert kept.keys() == {("agentrt contexts", "laptop")}
    with ContextStore(tmp_path, FINGERPRINT, key=KeyringKey("laptop")) as store:
        assert contents(store, ("my-app",))["my-app"]["my-thread"][0] == [b"my-text"]
    with pytest.raises(ContextKeyError, match="is missing"):
        ContextStore(tmp_path, FINGERPRINT, key=KeyringKey("desktop"))
    keyring.get_password = locked
    with pytest.raises(ContextKeyError, match="Unlock it"):
        ContextStore(tmp_path, FINGERPRINT, key=KeyringKey("laptop"))


def test_without_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ContextKeyError, match="pip install keyring"):
        ContextStore(tmp_path, FINGERPRINT, key=KeyringKey("laptop"))
    for module in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"agentrt\[encryption\]"):
        ContextStore(tmp_path, FINGERPRINT, key=KeyFile(tmp_path / "key"))
