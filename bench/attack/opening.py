"""Processes that convert a model, or open it and answer, with caches of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_CONVERT: Final = """
import sys
from agentrt.errors import AgentRTError
from agentrt.runtime.model.directory import open_model_directory

try:
    open_model_directory(sys.argv[1])
    print("done")
except AgentRTError as error:
    print(error)
    sys.exit(3)
"""
_ANSWER: Final = """
import logging, sys
logging.disable(logging.WARNING)  # that the profile was measured on a busy machine
from agentrt.errors import AgentRTError
from agentrt.runtime import LocalRuntime

try:
    with LocalRuntime.open(sys.argv[1]) as runtime:
        runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=8, ignore_eos=True)
    print("done")
except AgentRTError as error:
    print(error)
    sys.exit(3)
"""
DONE: Final = "done\n"
"""What is printed where all went well."""
TYPED_ERROR: Final = 3
"""The exit code where a documented error is raised, which is printed."""


def start_conversion(model: Path, cache: Path, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a process that converts a GGUF file, unless ``cache`` has it.

    ``prefix`` is a command that runs the one behind it.
    """
    return _start(_CONVERT, model, cache, prefix)


def start_answering(model: str | Path, cache: Path, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a process that opens a model, measures its profile unless ``cache`` has it, and answers."""
    return _start(_ANSWER, model, cache, prefix)


def _start(program: str, model: str | Path, cache: Path, prefix: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", program, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
