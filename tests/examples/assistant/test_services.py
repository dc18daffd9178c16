import pytest

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.services import Latencies, look_up, weather_in


def test_a_city_always_has_the_same_weather() -> None:
    oslo = weather_in("Oslo")
    assert oslo == weather_in(" Oslo")
    assert oslo["city"] == "Oslo"
    assert isinstance(oslo["temperature"], int)
    assert isinstance(oslo["sky"], str)
    assert {weather_in(city)["sky"] for city in ("Oslo", "Lima", "Cairo", "Perth")} != {oslo["sky"]}
    with pytest.raises(ToolError, match="the weather service says: name a city"):
        weather_in(" ")


def test_the_page_that_matches_best_is_found() -> None:
    title, text = look_up("kayak rental")
    assert title == "Kayak rental Bergen"
    assert "35 euros a day" in text
    assert look_up("zeppelin") == ("nothing found", "Try other words.")


@pytest.mark.parametrize("delay", [-1, 61, float("nan")])
def test_an_impossible_delay_is_a_configuration_error(delay: float) -> None:
    with pytest.raises(ConfigurationError, match="choose between 0 and 60 seconds"):
        Latencies(weather=delay)
    assert Latencies(0.1, 0.2, 0.4).times(2) == Latencies(0.2, 0.4, 0.8)
