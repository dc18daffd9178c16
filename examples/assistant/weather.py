"""A small weather service on this machine, and its client.

The service stands for the kind of tool an agent waits for: an HTTP API. It runs on a free port of the
loopback interface, answers any city with weather that is made up from the city's name (the same city always
has the same weather), and waits a stated time before each answer, as a service far away would.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

import httpx

from agentrt.errors import ConfigurationError

from .errors import ToolError

_SKIES = ("sunny", "clear sky", "cloudy", "light rain", "heavy rain", "fog", "windy", "light snow")


class WeatherService:
    """The service, to be used in a ``with`` block; ``url`` is its address while it runs.

    ``delay`` is the time in seconds it waits before each answer. Leaving the block interrupts answers that
    still wait and frees the port.
    """

    def __init__(self, delay: float) -> None:
        """Nothing runs before the ``with`` block; :class:`ConfigurationError` for a negative delay."""
        if not 0 <= delay <= 60:
            raise ConfigurationError(f"the weather delay is {delay} s; choose between 0 and 60 seconds.")
        self.delay = delay
        self.url = ""

    def __enter__(self) -> Self:
        """Start serving."""
        self._stopping = Event()
        self._server = _Server(self.delay, self._stopping)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="weather-service",
            daemon=True,
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


async def fetch_weather(client: httpx.AsyncClient, city: str) -> dict[str, str | int]:
    """Ask the service at the client's base URL; :class:`ToolError` if it does not answer properly."""
    try:
        response = await client.get("/weather", params={"city": city})
        response.raise_for_status()
        weather: dict[str, str | int] = response.json()
    except httpx.HTTPStatusError as error:
        raise ToolError(
            f"the weather service says {error.response.status_code} {error.response.text}"
        ) from error
    except (httpx.HTTPError, ValueError) as error:
        raise ToolError(f"the weather service does not answer: {error or type(error).__name__}") from error
    return weather


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, delay: float, stopping: Event) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.delay = delay
        self.stopping = stopping


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # One packet per answer: in two, TCP would hold the second back until the first is acknowledged, 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer ``/weather?city=Oslo``."""
        address = urlsplit(self.path)
        city = parse_qs(address.query).get("city", [""])[0].strip()
        if self.server.stopping.wait(self.server.delay):
            self.close_connection = True
        elif address.path != "/weather":
            self._reply(404, b"unknown path, use /weather?city=Oslo", "text/plain")
        elif not city:
            self._reply(400, b"name a city", "text/plain")
        else:
            self._reply(200, json.dumps(_weather(city)).encode(), "application/json")

    def log_message(self, format: str, *args: object) -> None:
        """Write no access log: standard error belongs to the demo."""

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        with suppress(ConnectionError):  # the client may have disconnected during the delay
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def _weather(city: str) -> dict[str, str | int]:
    number = zlib.crc32(city.casefold().encode())
    sky = _SKIES[number % len(_SKIES)]
    temperature = number // 8 % 6 - 5 if sky == "light snow" else number // 8 % 24 + 4
    return {"city": city, "temperature": temperature, "sky": sky}
