import asyncio
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant import http_service
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.weather import WeatherService, fetch_weather


@pytest.fixture
def service() -> Iterator[WeatherService]:
    with WeatherService(0) as service:
        yield service


def weather(url: str, city: str) -> dict[str, str | int]:
    async def fetch() -> dict[str, str | int]:
        async with httpx.AsyncClient(base_url=url) as client:
            return await fetch_weather(client, city)

    return asyncio.run(fetch())


def test_a_city_always_has_the_same_weather(service: WeatherService) -> None:
    oslo = weather(service.url, "Oslo")
    assert oslo == weather(service.url, "Oslo")
    assert oslo["city"] == "Oslo"
    assert isinstance(oslo["temperature"], int)
    assert isinstance(oslo["sky"], str)
    assert {weather(service.url, city)["sky"] for city in ("Oslo", "Lima", "Cairo", "Perth")} != {oslo["sky"]}


def test_names_with_spaces_and_accents(service: WeatherService) -> None:
    assert weather(service.url, "São Paulo & Co")["city"] == "São Paulo & Co"


def test_no_city_is_a_clear_error(service: WeatherService) -> None:
    with pytest.raises(ToolError, match="the weather service says 400 name a city"):
        weather(service.url, " ")


def test_another_path_is_not_found(service: WeatherService) -> None:
    assert httpx.get(f"{service.url}/other").status_code == 404


def test_a_service_that_is_gone_is_a_clear_error() -> None:
    with WeatherService(0) as service:
        url = service.url
    with pytest.raises(ToolError, match="the weather service does not answer"):
        weather(url, "Oslo")


def test_a_service_that_answers_nonsense_is_a_clear_error() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>")

    async def fetch() -> None:
        async with httpx.AsyncClient(
            base_url="http://weather", transport=httpx.MockTransport(answer)
        ) as client:
            await fetch_weather(client, "Oslo")

    with pytest.raises(ToolError, match="the weather service does not answer"):
        asyncio.run(fetch())


class Wait(threading.Event):
    """An event that notes how long it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[float | None] = []
        self.begun = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.timeouts.append(timeout)
        self.begun.set()
        return super().wait(timeout)


def test_it_waits_as_long_as_it_says_and_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Wait()
    monkeypatch.setattr(http_service, "Event", lambda: waiting)
    failures: list[Exception] = []

    def ask(url: str) -> None:
        try:
            with httpx.Client(timeout=None) as client:
                client.get(f"{url}/weather?city=Oslo")
        except httpx.HTTPError as error:
            failures.append(error)

    with WeatherService(60) as service:
        address = ("127.0.0.1", int(service.url.rsplit(":", 1)[1]))
        thread = threading.Thread(target=ask, args=(service.url,))
        thread.start()
        waiting.begun.wait()
    thread.join()
    assert waiting.timeouts == [60]
    assert len(failures) == 1
    with socket.socket() as probe:
        assert probe.connect_ex(address) != 0


@pytest.mark.parametrize("delay", [-1, 61, float("nan")])
def test_an_impossible_delay_is_a_configuration_error(delay: float) -> None:
    with pytest.raises(ConfigurationError, match="choose between 0 and 60 seconds"):
        WeatherService(delay)
