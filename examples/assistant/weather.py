"""A small weather service on this machine, and its client.

The service answers any city with weather that is made up from the city's name: the same city always has the
same weather.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

import httpx

from .errors import ToolError
from .http_service import HttpService, Reply

_SKIES = ("sunny", "clear sky", "cloudy", "light rain", "heavy rain", "fog", "windy", "light snow")


class WeatherService(HttpService):
    """The service, in a ``with`` block. It answers ``/weather?city=Oslo``."""

    def __init__(self, delay: float) -> None:
        """``delay`` is the time in seconds before each answer; see :class:`HttpService`."""
        super().__init__("weather", delay, _answer)


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


def _answer(path: str, query: Mapping[str, str]) -> Reply | None:
    if path != "/weather":
        return None
    city = query.get("city", "").strip()
    if not city:
        return Reply(400, "name a city")
    return Reply(200, json.dumps(_weather(city)), "application/json")


def _weather(city: str) -> dict[str, str | int]:
    number = zlib.crc32(city.casefold().encode())
    sky = _SKIES[number % len(_SKIES)]
    temperature = number // 8 % 6 - 5 if sky == "light snow" else number // 8 % 24 + 4
    return {"city": city, "temperature": temperature, "sky": sky}
