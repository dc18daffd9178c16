"""agentperf-local, a bench by Artificial Analysis: agents recorded elsewhere, replayed on a server.

It needs a newer Python than agentrt, so it runs in a virtual environment of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import platformdirs

from agentrt.errors import BenchProcessError, ConfigurationError

VERSION: Final = "0.3.4"
_REPLAY: Final = "agentperf-default-v1"
_LEAST_PYTHON: Final = (3, 12)
_REQUEST_TIMEOUT_S: Final = 1800
_LAST_LINES: Final = 20

# It counts tokens with tiktoken, which downloads this file; npm's package has its content in another form.
_ENCODING_URL: Final = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_ENCODING_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_NPM_PACKAGE: Final = "tiktoken@1.0.22"
_NPM_FILE: Final = "package/encoders/o200k_base.json"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded agent, or its first turns."""

    task: str
    turns: int | None = None
    """All of them if it is None."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn on one server, as agentperf-local reports it."""

    id: str
    failed: bool
    """The server refused it, or its answer was not as long as the recorded one."""
    seconds: float
    """From the request to the end of the answer."""
    first_s: float | None
    """To the first part of the answer."""
    prompt_tokens: int | None
    """As the server counts them."""


class AgentPerf:
    """An installation of agentperf-local."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` has the installation, or will have; by default it is in the user's cache folder."""
        self._folder = folder or platformdirs.user_cache_path("agentrt") / f"agentperf-local-{VERSION}"
        self._encodings = self._folder / "encodings"
        # tiktoken looks for a file of this name.
        self._encoding = self._encodings / hashlib.sha1(_ENCODING_URL.encode()).hexdigest()
        scripts = "Scripts" if os.name == "nt" else "bin"
        self._python = str(self._folder / "venv" / scripts / "python")

    @property
    def is_installed(self) -> bool:
        return self._encoding.is_file()  # which is written last

    def install(self, python: str, progress: Callable[[str], None]) -> None:
        """Install it from PyPI, and its tokens from npm, with the interpreter ``python``: a path or a name.

        Raises:
            ConfigurationError: the interpreter is missing or too old, or there is no npm.
            BenchProcessError: pip or npm failed.
        """
        found, npm = shutil.which(python), shutil.which("npm")
        if found is None:
            raise ConfigurationError(f"there is no interpreter {python!r}. Name one: --agentperf python3.12")
        version = _output(found, "-c", "import sys; print(*sys.version_info[:2])").split()
        if tuple(map(int, version)) < _LEAST_PYTHON:
            raise ConfigurationError(
                f"{python} is Python {'.'.join(version)}, but agentperf-local needs Python 3.12 or later. "
                "Name another: --agentperf python3.12"
            )
        if npm is None:
            raise ConfigurationError(
                "agentperf-local needs the tokens in npm's package tiktoken. Install npm: apt-get install npm"
            )
        progress(f"installing agentperf-local {VERSION} in {self._folder}")
        _output(found, "-m", "venv", "--clear", str(self._folder / "venv"))
        _output(self._python, "-m", "pip", "install", "--quiet", f"agentperf-local=={VERSION}")
        with TemporaryDirectory() as packed:
            _output(npm, "pack", "--silent", "--pack-destination", packed, _NPM_PACKAGE)
            (archive,) = Path(packed).iterdir()
            content = _encoding_of(archive)
        self._encodings.mkdir(exist_ok=True)
        partial = self._encoding.with_suffix(".partial")
        partial.write_bytes(content)
        partial.replace(self._encoding)

    def replay(self, recorded: Recorded, url: str, model: str) -> list[Turn]:
        """Replay an agent on the server at ``url``, each answer as long as the recorded one.

        Raises:
            BenchProcessError: it ended before the last turn.
        """
        with TemporaryDirectory() as folder:
            manifest = self._write_manifest(recorded, Path(folder))
            results = Path(folder, "results")
            options = ["--base-url", f"{url}/v1", "--model", model, "--output-dir", str(results)]
            options += ["--output-token-policy", "exact", "--timeout-seconds", str(_REQUEST_TIMEOUT_S)]
            command = [self._python, "-m", "agentperf_local", "run", str(manifest), *options, "--no-power"]
            environment = {
                **os.environ,
                "TIKTOKEN_CACHE_DIR": str(self._encodings),
                "NO_PROXY": "127.0.0.1",
            }
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            turns = results / "turns.jsonl"
            if not turns.is_file():  # it also fails where turns failed, which are in that file
                raise BenchProcessError(done.returncode, done.stderr.splitlines()[-_LAST_LINES:])
            return [_turn(json.loads(line)) for line in turns.read_text(encoding="utf-8").splitlines()]

    def _write_manifest(self, recorded: Recorded, folder: Path) -> Path:
        """Write a manifest of one agent, and its turns, as they are in the package."""
        replays = next(Path(self._folder, "venv").rglob(f"agentperf_local/data/replays/{_REPLAY}"))
        manifest = json.loads((replays / "manifest-x86_64.json").read_text(encoding="utf-8"))
        (task,) = (each for each in manifest["tasks"] if each["task_id"] == recorded.task)
        rows = (replays / task["trace"]).read_text(encoding="utf-8").splitlines()[: recorded.turns]
        calls = sum(len(json.loads(row)["recorded_tool_calls_after"]) for row in rows)
        (folder / "trace.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        task |= {"trace": "trace.jsonl", "model_calls": len(rows), "tool_calls": calls}
        file = folder / "manifest.json"
        file.write_text(json.dumps({**manifest, "tasks": [task]}), encoding="utf-8")
        return file


def _turn(row: dict[str, Any]) -> Turn:
    timing, first_ms = row["timing"], row["timing"]["time_to_first_token_ms"]
    return Turn(
        row["turn_id"],
        not row["success"],
        (timing["e2e_latency_ms"] or 0.0) / 1e3,
        None if first_ms is None else first_ms / 1e3,
        row["tokens"]["server_prompt_tokens"],
    )


def _encoding_of(archive: Path) -> bytes:
    """Return tiktoken's file from npm's package, which has runs of tokens, each behind its first number."""
    with tarfile.open(archive) as packed:
        file = packed.extractfile(_NPM_FILE)
        ranks: str = json.loads(file.read())["bpe_ranks"] if file is not None else ""
    lines = []
    for run in ranks.splitlines():
        _, first, *tokens = run.split(" ")
        lines += [f"{token} {number}\n" for number, token in enumerate(tokens, int(first))]
    content = "".join(lines).encode()
    if hashlib.sha256(content).hexdigest() != _ENCODING_SHA256:
        raise ConfigurationError(f"npm's {_NPM_PACKAGE} has other tokens than o200k_base. Remove its cache.")
    return content


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines: Sequence[str] = (done.stdout + done.stderr).splitlines()
        raise BenchProcessError(done.returncode, lines[-_LAST_LINES:])
    return done.stdout
