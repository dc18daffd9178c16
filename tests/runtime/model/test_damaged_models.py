"""Model directories with damaged files: typed errors or answers, but no crash and no untyped error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.runtime.files.checksums import CHECKSUMS
from agentrt.runtime.model.directory import ModelDirectory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="opens each model in a fork"),
]

GRAPHS = ("openvino_model", "openvino_tokenizer", "openvino_detokenizer")
FILES = (
    *(f"{graph}.{suffix}" for graph in GRAPHS for suffix in ("xml", "bin")),
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
DAMAGES = ("random", "flips", "many flips", "zeros", "half", "empty", "folder")

# The libraries are loaded once, and no model is open when it forks.
OPEN = """
import json, os, random, shutil, signal, sys
from pathlib import Path
from agentrt.errors import AgentRTError
from agentrt.runtime import LocalRuntime, RuntimeConfig

folder, kept, damages = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
source = random.Random(0)

def flipped(content, count):
    changed = bytearray(content)
    for _ in range(count):
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    return bytes(changed)

def damage(file, how):
    content = file.read_bytes()
    middle = len(content) // 3
    if how == "folder":
        file.unlink()
        file.mkdir()
        return
    file.write_bytes(
        {
            "random": lambda: source.randbytes(len(content)),
            "flips": lambda: flipped(content, 16),
            "many flips": lambda: flipped(content, 200),
            "zeros": lambda: content[:middle] + bytes(middle) + content[2 * middle :],
            "half": lambda: content[: len(content) // 2],
            "empty": lambda: b"",
        }[how]()
    )

def outcome():
    try:
        with LocalRuntime.open(folder, RuntimeConfig(memory_bytes=2**22)) as runtime:
            runtime.generate([{"role": "user", "content": "Hi"}], max_tokens=3)
    except AgentRTError:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "answered"

for name, how in damages:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder)
    damage(folder / name, how)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(60)
        print(json.dumps([name, how, outcome()]), flush=True)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        print(json.dumps([name, how, f"ended with {code}"]), flush=True)
"""


def outcomes(folder: Path, kept: Path, damages: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    command = [sys.executable, "-c", OPEN, folder, kept, json.dumps(damages)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=290, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(name, how): outcome for name, how, outcome in found}


@pytest.mark.check
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_any_model(nano_directory: ModelDirectory, tmp_path: Path, name: str) -> None:
    """Without digests, as most models are."""
    kept = shutil.copytree(nano_directory.path, tmp_path / "kept", ignore=shutil.ignore_patterns(CHECKSUMS))
    damages = [(name, how) for how in DAMAGES]
    found = outcomes(tmp_path / "model", kept, damages)
    assert found.keys() == set(damages)
    assert set(found.values()) <= {"refused", "answered"}, found


def test_damage_that_digests_show(nano_directory: ModelDirectory, tmp_path: Path) -> None:
    damages = [
        (name, how) for name in FILES[:6] for how in ("flips", "random") if name != "openvino_model.bin"
    ]
    found = outcomes(tmp_path / "model", nano_directory.path, damages)
    assert found == dict.fromkeys(damages, "refused")
