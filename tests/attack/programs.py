"""Programs that convert a model, or open it and answer, with caches of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from agentrt.bench.common.random_gguf import ModelShape

SHAPE = ModelShape("qwen2", 4, 256, 1024, 4, 2, 2048, 1024)
"""Of the GGUF file that is converted: large enough to be killed meanwhile."""
_PROGRAM = """
import logging, sys
logging.disable(logging.WARNING)  # that the profile was measured on a busy machine
from agentrt.errors import AgentRTError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.directory import open_model_directory

try:
    {}
    print("done")
except AgentRTError as error:
    print(error)
    sys.exit(3)
"""
CONVERT = _PROGRAM.format("open_model_directory(sys.argv[1])")
"""Converts a GGUF file, unless the cache has it."""
ANSWER = _PROGRAM.format("""
    with LocalRuntime.open(sys.argv[1]) as runtime:
        runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=8, ignore_eos=True)
""")
"""Opens a model, measures its profile unless the cache has it, and answers."""
TYPED_ERROR = 3
"""The exit code where a documented error is raised, which is printed."""


def start(program: str, model: object, cache: Path, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a program on a model. ``prefix`` is a command that runs the one behind it."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", program, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
