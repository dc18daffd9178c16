"""The services that the assistant's tools ask, imitated: their answers, and how long real ones take.

Nothing leaves this machine. A tool waits as long as others have measured and published of such a service,
for every agent alike. Notes, calendar and files are on this machine in earnest: nothing is added to them.
"""

from __future__ import annotations

import math
import zlib
from contextlib import closing
from dataclasses import dataclass, fields, replace
from typing import Self

from agentrt.errors import ConfigurationError

from .errors import ToolError
from .search import Index

_SKIES = ("sunny", "clear sky", "cloudy", "light rain", "heavy rain", "fog", "windy", "light snow")

# Blank lines between the pages; the first line is the title.
_PAGES = """\
Kayak rental Bergen
A kayak costs 35 euros a day and the harbour office opens at nine.

Old station hall
The hall has 240 seats, a bar and no parking. Take tram 4.

Baking sourdough
Bake the loaf at 230 degrees for 40 minutes and let it cool.

Northern lakes
The map of the northern lakes shows 61 huts and all ferries.
"""


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

    def __post_init__(self) -> None:
        """Raise :class:`ConfigurationError` unless each is 0 to 60 seconds."""
        for field in fields(self):
            delay: float = getattr(self, field.name)
            if not math.isfinite(delay) or not 0 <= delay <= 60:
                raise ConfigurationError(
                    f"the {field.name} delay is {delay} s; choose between 0 and 60 seconds."
                )

    def times(self, factor: float) -> Self:
        return replace(self, mail=factor * self.mail, weather=factor * self.weather, web=factor * self.web)


def weather_in(city: str) -> dict[str, str | int]:
    """Return weather made up from the city's name: the same city always has the same."""
    city = city.strip()
    if not city:
        raise ToolError("the weather service says: name a city")
    number = zlib.crc32(city.casefold().encode())
    sky = _SKIES[number % len(_SKIES)]
    temperature = number // 8 % 6 - 5 if sky == "light snow" else number // 8 % 24 + 4
    return {"city": city, "temperature": temperature, "sky": sky}


def look_up(query: str) -> tuple[str, str]:
    """Return the title and the text of the page that matches best, as the first result of a web search."""
    pages = [paragraph.split("\n", 1) for paragraph in _PAGES.strip().split("\n\n")]
    with closing(Index()) as index:
        for number, (title, text) in enumerate(pages):
            index.put(number, title, text)
        found = index.search(query, 1)
    title, text = pages[found[0]] if found else ("nothing found", "Try other words.")
    return title, text
