"""Servers of agentrt as processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from agentrt.errors import ConfigurationError


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
