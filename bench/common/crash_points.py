"""Processes that are killed while they store contexts, and what is found afterwards.

A process runs a random load on a store: two threads, each for an app of its own, create, continue and delete
contexts that share chunks. It is killed with ``SIGKILL`` at a random moment. What it had finished is known
from a journal: each thread writes a byte when an operation begins and when it is done. Then the folder is
opened, and every text and every chunk is compared with what must be there; the next process goes on with the
same folder.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agentrt.errors import BenchProcessError

if TYPE_CHECKING:
    from agentrt.runtime.kv.store.chunk_files import Chunk
    from agentrt.runtime.kv.store.store import ContextStore

_MODULE: Final = "agentrt.bench.common.crash_points"
_APPS: Final = ("app 0", "app 1")
_FINGERPRINT: Final = b"crash points"
_LONGEST_LOAD_S: Final = 0.06
"""Seconds within which a process is killed after its first operation began."""
_CONTEXTS: Final = 5
_CHUNKS: Final = 40

Stored = dict[str, tuple[list[bytes], set[int]]]
"""The contexts of an app: id -> text, and the numbers of the chunks that the context uses."""

Torn = dict[str, set[int]]
"""Numbers of chunks that a context may use, by its id: those of operations in which a process was killed. Its
references to chunks may be written and the chunks not; they hold once another context stores such a chunk."""


@dataclass(frozen=True)
class CrashPoints:
    """How many processes were killed, and after how many of them nothing was lost and nothing was wrong."""

    tried: int
    survived: int
    problems: tuple[str, ...]


class _Operation(NamedTuple):
    kind: Literal["text", "replace", "chunks", "refer", "delete"]
    context_id: str
    numbers: list[int]
    text: bytes


def crash_points(folder: Path, tries: int = 500, seed: int = 0) -> CrashPoints:
    """Kill ``tries`` processes that store contexts in ``folder``, and check the folder after each.

    Raises:
        BenchProcessError: a process ended before it was killed.
    """
    moments = random.Random(seed)
    stored: dict[str, Stored] = {app: {} for app in _APPS}
    torn: dict[str, Torn] = {app: {} for app in _APPS}
    problems = []
    for number in range(tries):
        load = f"{seed}-{number}"
        journal = _kill_a_load(folder, load, moments.uniform(0, _LONGEST_LOAD_S))
        found, damaged = _found(folder)
        wrong = [
            f"{app} after load {load}"
            for index, app in enumerate(_APPS)
            if not _is_expected(found[app], stored[app], torn[app], _operations(load, app), journal, index)
        ]
        problems += wrong + ([f"{damaged} damaged parts after load {load}"] if damaged else [])
        stored = found
    survived = tries - len({problem.rpartition(" ")[2] for problem in problems})
    return CrashPoints(tries, survived, tuple(problems))


def _kill_a_load(folder: Path, load: str, after_s: float) -> bytes:
    """Run a load in a process of its own, kill it, and return its journal."""
    with subprocess.Popen(
        [sys.executable, "-m", _MODULE, str(folder), load], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        journal = process.stdout.read(1)
        time.sleep(after_s)
        ended = process.poll() is not None
        process.kill()
        journal += process.stdout.read()
        errors = process.stderr.read().decode(errors="replace").splitlines()
    if ended or not journal:
        raise BenchProcessError(process.returncode, errors[-20:])
    return journal


def _operations(load: str, app: str) -> Iterator[_Operation]:
    """Yield the operations of a load on an app, the same in every process."""
    choices = random.Random(f"{load} {app}")
    while True:
        yield _Operation(
            choices.choices(("text", "replace", "chunks", "refer", "delete"), (6, 1, 6, 3, 1))[0],
            str(choices.randrange(_CONTEXTS)),
            choices.sample(range(_CHUNKS), choices.randrange(1, 8)),
            choices.randbytes(choices.randrange(2000)),
        )


def _chunk(number: int) -> Chunk:
    from agentrt.runtime.kv.store.chunk_files import Chunk

    content = random.Random(number)
    return Chunk(number.to_bytes(16, "big"), number % 9, content.randbytes(content.randrange(60_000)))


def _store(folder: Path) -> ContextStore:
    from agentrt.runtime.kv.store.store import ContextStore

    return ContextStore(folder, _FINGERPRINT)


def _run(folder: Path, load: str) -> None:
    """Run a load until the process is killed. An error in a thread ends the process."""

    def end(failed: threading.ExceptHookArgs) -> None:
        traceback.print_exception(failed.exc_value)
        os._exit(1)

    threading.excepthook = end
    store = _store(folder)
    for index, app in enumerate(_APPS):
        threading.Thread(target=_run_app, args=(store, load, index, app)).start()


def _run_app(store: ContextStore, load: str, index: int, app: str) -> None:
    begin, done = b"ab"[index : index + 1], b"AB"[index : index + 1]
    for operation in _operations(load, app):
        os.write(sys.stdout.fileno(), begin)
        _apply(store, app, operation)
        os.write(sys.stdout.fileno(), done)


def _apply(store: ContextStore, app: str, operation: _Operation) -> None:
    context = store.get(app, operation.context_id)
    if operation.kind == "delete":
        if context is not None:
            store.delete(app, operation.context_id)
        return
    if context is None:
        context = store.create(app, operation.context_id)
    if operation.kind == "text":
        context.append_text(operation.text)
    elif operation.kind == "replace":
        context.replace_text([operation.text, b"replaced"])
    elif operation.kind == "chunks":
        context.append_chunks([_chunk(number) for number in operation.numbers])
    else:
        context.refer_to([_chunk(number).block_hash for number in operation.numbers])


def _found(folder: Path) -> tuple[dict[str, Stored], int]:
    """Return what is stored, and the number of files and chunks that are damaged."""
    from agentrt.errors import ChunkDamagedError, ContextDamagedError

    found: dict[str, Stored] = {app: {} for app in _APPS}
    damaged = 0
    with _store(folder) as store:
        for app in _APPS:
            for context in store.contexts(app):
                used = set()
                for block_hash in context.block_hashes:
                    location = store.locate(app, block_hash)
                    number = int.from_bytes(block_hash, "big")
                    try:
                        if location is not None and store.read(location) == _chunk(number):
                            used.add(number)
                    except ChunkDamagedError:
                        damaged += 1
                try:
                    found[app][context.id] = (context.read_text(), used)
                except ContextDamagedError:
                    damaged += 1
        return found, damaged + store.statistics().refused_files


def _is_expected(
    found: Stored, before: Stored, torn: Torn, operations: Iterator[_Operation], journal: bytes, index: int
) -> bool:
    """Return whether all finished operations are there, and the last one whole, not at all, or begun.

    ``torn`` has the chunks of operations that earlier processes were killed in, and gets those of this one.
    """
    expected = copy.deepcopy(before)
    begun, done = journal.count(b"ab"[index]), journal.count(b"AB"[index])
    for operation in itertools.islice(operations, done):
        _apply_to(expected, operation)
        if operation.kind == "delete":
            torn.pop(operation.context_id, None)
    last = next(operations) if begun > done else None
    if last is not None and last.kind in ("chunks", "refer"):
        torn.setdefault(last.context_id, set()).update(last.numbers)
    found = _without_torn(found, expected, torn)
    if found == expected:
        return True
    if last is None:
        return False
    if last.kind == "delete" and last.context_id in found:
        # KV goes before the text, and chunks that others use are theirs by then.
        text, used = expected[last.context_id]
        kept = {**expected, last.context_id: (text, found[last.context_id][1])}
        return found == kept and found[last.context_id][1] <= used
    if last.kind != "delete" and last.context_id not in expected:
        expected[last.context_id] = ([], set())
        if found == expected:
            return True
    _apply_to(expected, last)
    return _without_torn(found, expected, torn) == expected


def _without_torn(found: Stored, expected: Stored, torn: Torn) -> Stored:
    """Return ``found`` without the chunks that may be there, but need not, unless they are expected."""
    return {
        id: (text, used - (torn.get(id, set()) - expected.get(id, ([], set()))[1]))
        for id, (text, used) in found.items()
    }


def _apply_to(expected: Stored, operation: _Operation) -> None:
    """Change ``expected`` as the operation changes a store."""
    if operation.kind == "delete":
        expected.pop(operation.context_id, None)
        return
    text, used = expected.setdefault(operation.context_id, ([], set()))
    if operation.kind == "text":
        text.append(operation.text)
    elif operation.kind == "replace":
        text[:] = [operation.text, b"replaced"]
    elif operation.kind == "chunks":
        used.update(operation.numbers)
    else:
        stored = {number for _, others in expected.values() for number in others}
        used.update(stored.intersection(operation.numbers))


if __name__ == "__main__":
    _run(Path(sys.argv[1]), sys.argv[2])
