"""``agentrt contexts``: what is kept of apps on disk, seen and deleted, also while a server has it open."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import platformdirs
import pytest

from agentrt.runtime.contexts.context import ContextKind
from agentrt.runtime.contexts.table import ContextTable
from agentrt.runtime.kv.store.folder import KeyFile
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, chunk

Command = Callable[..., tuple[object, str, str]]

SYSTEM = {"role": "system", "content": "Be brief."}
TURN = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello."}]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of contexts of a user who has none yet, and no server."""
    for kind in ("config", "data", "state"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    return platformdirs.user_data_path("agentrt") / "contexts"


@contextmanager
def store_of(folder: Path, key: KeyFile | None = None) -> Iterator[ContextStore]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with ContextStore(folder, FINGERPRINT, key=key) as store:
        yield store


def fill(store: ContextStore) -> list[str]:
    """Keep a context and a session of ``notes``, and what ``mail`` has computed; return the ids."""
    table = ContextTable(9, store)
    made = table.create("notes", messages=[SYSTEM]).id
    with table.begin_turn("notes", made) as turn:
        turn.commit(TURN, 21)
    session = table.create("notes", ContextKind.SESSION, session="chat [7]").id
    prefix = store.create("mail", "kv_0", {"kind": "prefix"})
    prefix.append_chunks([chunk(1, 3_000_000), chunk(2, 1_000_000)])
    return [made, session, "kv_0"]


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.startswith((" notes", " mail"))]


def test_what_is_kept_is_listed(command: Command, folder: Path) -> None:
    assert command("contexts")[:2] == (0, f"No context is kept in {folder}.\n")
    with store_of(folder / "nano-12345678") as store:
        made, session, prefix = fill(store)
        while_open = command("contexts")
    code, printed, _ = command("contexts")
    assert code == while_open[0] == 0
    assert rows(printed) == rows(while_open[1])
    assert [[*row[:-4], row[-3]] for row in rows(printed)] == [
        ["mail", prefix, "prefix", "MB"],
        ["notes", session, "session", "chat", "[7]", "kB"],
        ["notes", made, "context", "3", "21", "kB"],
    ]
    assert printed.splitlines()[0] == "nano-12345678"
    assert printed.splitlines()[-1] == f"in {folder}: 3 contexts"


def test_contexts_are_deleted_by_id_by_app_and_all(command: Command, folder: Path) -> None:
    with store_of(folder / "a") as store:
        made, *_ = fill(store)
    with store_of(folder / "b") as store:
        fill(store)
    code, _, problem = command("contexts", "--remove", made, "--remove-app", "paint")
    assert (code, "--remove-app: nothing is kept of paint" in " ".join(problem.split())) == (2, True)
    assert len(rows(command("contexts")[1])) == 6, "nothing was deleted"
    assert command("contexts", "--remove", made)[1].startswith("removed 1 context (0.")
    assert [row[1] for row in rows(command("contexts")[1])].count(made) == 0
    assert len([*folder.glob("*/*.chunks")]) == 2, "what others use stays"
    assert command("contexts", "--remove-app", "mail")[1] == "removed 2 contexts (8.0 MB)\n"
    assert {row[0] for row in rows(command("contexts")[1])} == {"notes"}
    assert not list(folder.glob("*/*.chunks"))
    assert command("contexts", "--remove-all")[1].startswith("removed 3 contexts (")
    assert command("contexts")[1] == f"No context is kept in {folder}.\n"
    assert b"Be brief" not in b"".join(file.read_bytes() for file in folder.glob("*/*"))


def test_other_folders_and_keys_are_those_of_serve(command: Command, folder: Path, tmp_path: Path) -> None:
    other, key = tmp_path / "other", tmp_path / "key"
    with store_of(other / "a", KeyFile(key)) as store:
        fill(store)
    code, _, problem = command("contexts", "--context-folder", str(other))
    assert (code, "is encrypted, and there is no key" in problem) == (2, True)
    settings = platformdirs.user_config_path("agentrt") / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[serve]\ncontext-folder = '{other}'\ncontext-key = '{key}'\n")
    settings.chmod(0o600)
    assert len(rows(command("contexts")[1])) == 3
    assert command("contexts", "--context-folder", str(folder))[1] == f"No context is kept in {folder}.\n"
    assert command("contexts", "--remove-all")[0] == 0
    assert rows(command("contexts")[1]) == []


def test_what_a_program_uses_that_cannot_be_asked_stays(command: Command, folder: Path) -> None:
    with store_of(folder / "a") as store:
        made, *_ = fill(store)
        for options in (("--remove", made), ("--remove-app", "mail"), ("--remove-all",)):
            code, printed, problem = command("contexts", *options)
            assert (code, printed) == (2, "")
            assert "are in use by a program that cannot be asked to delete them. End it" in problem
        assert len(rows(command("contexts")[1])) == 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("at", ["port", "socket"])
def test_a_running_server_deletes_what_it_has_open(
    command: Command, folder: Path, tmp_path: Path, at: str
) -> None:
    options = ["--port", "0"] if at == "port" else ["--uds", str(tmp_path / "socket")]
    if at == "port":
        options += ["--token-file", str(tmp_path / "tokens")]
        (tmp_path / "tokens").write_text("first 0123456789abcdef\nnotes fedcba9876543210\n")
        (tmp_path / "tokens").chmod(0o600)
    with serving(*options) as (server, lines):
        said = f"contexts are kept in {folder}: agentrt contexts lists and deletes them"
        assert lines[-1].startswith(said)
        with client(lines, tmp_path, at) as http:
            ids = [http.post("/v1/contexts", json={}).json()["id"] for _ in range(2)]
            http.post("/v1/responses", json={"input": "Hello! " * 40, "store": False}).raise_for_status()
            assert command("contexts", "--remove", ids[0])[1].startswith("removed 1 context (0.2 kB)")
            assert http.get(f"/v1/contexts/{ids[0]}").status_code == 404
            assert http.get(f"/v1/contexts/{ids[1]}").status_code == 200
            assert ids[1] in command("contexts")[1]
            assert command("contexts", "--remove-all")[0] == 0
            assert http.get("/v1/contexts").json()["data"] == []
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0
    assert command("contexts")[1] == f"No context is kept in {folder}.\n"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run ``agentrt serve`` on nano; yield it and what it has said. It is killed if it runs at the end."""
    command = [sys.executable, "-m", "agentrt", "serve", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            lines: list[str] = []
            while not lines or not lines[-1].startswith("contexts "):
                lines.append(next(server.stderr).strip())
            yield server, lines
        finally:
            server.kill()


def client(lines: list[str], tmp_path: Path, at: str) -> httpx.Client:
    """Return a client of the server that has printed these lines: the app ``notes``, or this user."""
    if at == "socket":
        transport = httpx.HTTPTransport(uds=str(tmp_path / "socket"))
        return httpx.Client(base_url="http://localhost", transport=transport, timeout=None)
    (url,) = (line.rsplit(" ", 1)[1] for line in lines if line.startswith("serving "))
    headers = {"authorization": "Bearer fedcba9876543210"}
    return httpx.Client(base_url=url.removesuffix("/v1"), headers=headers, timeout=None)
