"""How long the services that the demo imitates take to answer, as others have measured and published it.

The demo's servers run on this machine, where an answer takes about a millisecond. Each waits the time below
before it answers, for every agent alike. Notes, calendar and files are on this machine in earnest: nothing is
added to them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class Latencies:
    """Seconds that each service takes before it answers one request."""

    mail: float = 0.085
    """One IMAP command. In published logs of mail clients: 84, 96 and 104 ms from UID FETCH to its OK
    (github.com/postalsys/imapflow/issues/13), 33 and 44 ms at a large provider
    (github.com/the-djmaze/snappymail/issues/765). A search is two commands, reading a mail is one."""

    weather: float = 0.36
    """One request to a weather API: 364 ms, the latency that RapidAPI publishes of Meteostat's."""

    web: float = 0.8
    """The first byte of a web page: in Chrome's reports a site counts as fast if three of four visits get it
    within 800 ms (ismyhostfastyet.com); the mean of 5.2 million pages was 1.29 s on desktops in 2019
    (backlinko.com/page-speed-stats)."""

    def times(self, factor: float) -> Self:
        """Return all latencies multiplied by ``factor``."""
        return replace(self, mail=factor * self.mail, weather=factor * self.weather, web=factor * self.web)
