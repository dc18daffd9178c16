"""The entry point of ``agentrt`` and ``python -m agentrt``."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run the command line with this process's arguments. It always raises :class:`SystemExit`.

    An :class:`AgentRTError` is printed as one line on standard error, with exit code 2. Any other exception
    is a fault of agentrt and keeps its traceback. The code is 130 after Ctrl-C.
    """
    from .errors import AgentRTError

    try:
        _command_line()()
    except AgentRTError as error:
        print(f"agentrt: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before the command line handles it
        sys.exit(130)


def _command_line() -> typer.Typer:
    """Import the command line. A Ctrl-C ends the process meanwhile: there is nothing to clean up."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from .extras import require_extra

        require_extra("cli")
        from .cli.main import app
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    return app


if __name__ == "__main__":
    main()
