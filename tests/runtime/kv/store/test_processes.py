"""One runtime at a time has a folder open; threads of it share the store."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentrt.errors import ChunkDamagedError, ContextStoreError
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, chunk, contents

HOLDER = """
import sys
from pathlib import Path
from agentrt.runtime.kv.store.store import ContextStore

with ContextStore(Path(sys.argv[1]), b"a model") as store:
    store.create("notes", "a").append_text(b"text")
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(ContextStoreError, match=r"another runtime.*folder of its own"):
            ContextStore(tmp_path, FINGERPRINT)
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    with ContextStore(tmp_path, FINGERPRINT) as store:  # the lock ended with the process
        assert contents(store)["notes"] == {"a": ([b"text"], set())}
    assert holder.returncode == -signal.SIGKILL or os.name != "posix"


def test_two_stores_of_a_process_do_not_share_a_folder(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT), pytest.raises(ContextStoreError):
        ContextStore(tmp_path, FINGERPRINT)
    store = ContextStore(tmp_path, FINGERPRINT)
    del store  # without closing it
    ContextStore(tmp_path, FINGERPRINT).close()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_the_user_can_read_the_files(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        with ContextStore(tmp_path / "contexts", FINGERPRINT) as store:
            context = store.create("notes", "a")
            context.append_text(b"text")
            context.replace_text([b"text"])
            context.append_chunks([chunk(1)])
            files = list((tmp_path / "contexts").iterdir())
            assert len(files) == 5  # with the lock, the write-ahead log and its index
            modes = {stat.S_IMODE(file.stat().st_mode) for file in files}
    finally:
        os.umask(previous)
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "contexts").stat().st_mode) == 0o700


@pytest.mark.slow
def test_readers_find_chunks_while_they_are_handed_on(tmp_path: Path) -> None:
    """One thread stores, shares and deletes; others read what they find meanwhile."""
    done = threading.Event()
    shared = [chunk(number, 500) for number in range(8)]

    def read(store: ContextStore) -> int:
        read = 0
        while not done.is_set() or not read:
            for each in shared:
                location = store.locate("notes", each.block_hash)
                if location is not None:
                    try:
                        assert store.read(location) == each
                    except ChunkDamagedError:  # deleted meanwhile
                        assert store.locate("notes", each.block_hash) != location
                    else:
                        read += 1
            for context in store.contexts("notes"):
                assert len(context.block_hashes) <= len(shared)
        return read

    with ContextStore(tmp_path, FINGERPRINT) as store, ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, store) for _ in range(3)]
        try:
            store.create("notes", "0").append_chunks(shared)
            for number in range(60):
                heir = store.create("notes", str(number + 1))
                assert heir.refer_to([each.block_hash for each in shared]) == []
                store.delete("notes", str(number))
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
        assert store.statistics().damaged_chunks == store.statistics().refused_files == 0


def test_threads_append_to_a_context_one_after_another(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context = store.create("notes", "a")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(context.append_text, [bytes([number]) for number in range(40)]))
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert sorted(store.get("notes", "a").read_text()) == [bytes([number]) for number in range(40)]


FORK = """
import os, sys
from pathlib import Path
from agentrt.runtime.kv.store.store import ContextStore

with ContextStore(Path(sys.argv[1]), b"a model") as store:
    context = store.create("notes", "a")
    context.append_text(b"before")
    if os.fork() == 0:
        del store, context
        sys.exit()  # the interpreter ends, and destroys the child's copy of the connection
    context.append_text(b"meanwhile")
    os.wait()
    context.append_text(b"after")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_the_end_of_a_forked_child_harms_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], check=True, timeout=60)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"] == {"a": ([b"before", b"meanwhile", b"after"], set())}
        assert store.statistics().refused_files == 0
