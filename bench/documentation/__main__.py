"""``python -m agentrt.bench.documentation``."""

import signal
import sys

from .main import main

# As Ctrl-C does: what runs ends with the processes that it has started.
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
main(sys.argv[1:])
