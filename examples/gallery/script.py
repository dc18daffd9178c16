"""What scripts have in common: the option ``--model``, errors in one line, and servers of agentrt."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from agentrt.errors import AgentRTError, ConfigurationError

Model = Annotated[
    str,
    typer.Option(
        help="A folder with an OpenVINO model, a GGUF file, a pulled model, or nano, the demonstration model."
    ),
]


def run_script(main: Callable[..., None]) -> None:
    """Run ``main``, whose parameters are the script's options and arguments. It always raises SystemExit.

    An :class:`AgentRTError`, such as that of a model that cannot be opened, is printed as one line on
    standard error, with exit code 2.
    """
    failure: BaseException
    try:
        typer.run(main)
    except* AgentRTError as errors:  # tasks that run beside each other fail as a group
        failure = errors
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    print(f"{Path(sys.argv[0]).name}: {failure}", file=sys.stderr)
    sys.exit(2)


@contextmanager
def running(command: str, *options: str) -> Iterator[str]:
    """Run ``agentrt serve`` or ``agentrt gateway`` on a free port of this machine; yield its base URL.

    The server has its defaults and ``options``. On Linux and macOS it does not read the user's config file,
    which may name a folder of contexts that another server holds, say.

    Raises:
        ConfigurationError: the server did not start. The message is the last line that it printed, such as
            that which installs what is missing.
    """
    line = [sys.executable, "-m", "agentrt", command, "--port", "0", "--no-auth", *options]
    with (
        tempfile.TemporaryDirectory() as settings,
        subprocess.Popen(
            line,
            env={**os.environ, "XDG_CONFIG_HOME": settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as server,
    ):
        try:
            yield _address(server)
        finally:
            server.terminate()


def _address(server: subprocess.Popen[str]) -> str:
    """Return the address that the server prints once it can be reached."""
    printed = []
    for line in server.stdout or ():
        printed.append(line)
        if address := re.search(r"^serving .* at (http\S+)$", line):
            return address[1]
    last = printed[-1].strip().removeprefix("agentrt: ") if printed else "it printed nothing. Try it by hand."
    raise ConfigurationError(f"the server did not start: {last}")
