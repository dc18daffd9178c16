"""What ``agentrt top`` sums up of frames."""

from __future__ import annotations

from agentrt.cli.top.state import TopState
from tests.agentrt.cli.top.frames import frame


def busy(t: float, number: int) -> dict[str, object]:
    """Return a frame of 0.2 seconds in which an XPU ran 40 kernels, 0.16 seconds in all."""
    kernels = [[1, t - 0.2 + each / 200, 0.004, 1, each % 2, 1, "gen_1", 0] for each in range(40)]
    answered = [{"tools": [f"tool {number}"]}]
    counts = {"sampled_tokens": 10 * number}
    return frame(t, number, counts, kernels=kernels, ended=[{"id": str(number)}], answered=answered)


def test_it_does_not_grow() -> None:
    state = TopState()
    for number in range(3000):
        state.apply(busy(number / 5, number))
        state.use()
    assert (len(state.ended), len(state.tools)) == (8, 51)
    (use,) = state.use().values()
    assert 0.39 < use.reactive < 0.41
    assert 199 < use.kernels_per_s < 205
    assert sum(map(len, state._kernels.values())) < 3000


def test_rates_are_over_the_time_of_which_all_is_known() -> None:
    state = TopState()
    assert (state.tokens, state.use()) == (None, {})
    state.apply(busy(100.0, 7))
    assert (state.tokens, state.use(), state.known_s) == (None, {}, 0.0), "what was before is not known"
    for number in range(8, 13):
        state.apply(busy(100.0 + (number - 7) / 5, number))
    (use,) = state.use().values()
    assert 0.39 < use.reactive < 0.41
    assert 199 < use.kernels_per_s < 205
    assert state.use_s == state.known_s == 1.0
    assert state.tokens is not None
    assert (round(state.tokens.per_s), state.tokens.seconds) == (50, 1.0)


def test_missing_frames_are_no_time_without_kernels() -> None:
    state = TopState()
    for number in (1, 2, 3):
        state.apply(busy(number / 5, number))
    state.apply(busy(2.0, 10))
    assert state.use() == {}
    assert state.tokens is not None, "counters miss nothing"
    state.apply(busy(2.2, 11))
    assert 0.39 < state.use()["m: decode"].reactive < 0.41


def test_silence_of_an_idle_server_only_is_known() -> None:
    idle, loaded = TopState(), TopState()
    idle.apply(frame(1.0))
    idle.note_silence(2.0)
    assert idle.known_s == 2.0
    assert idle.tokens is not None
    assert (idle.tokens.per_s, idle.tokens.seconds) == (0.0, 2.0)
    loaded.apply(frame(1.0, waiting=1))
    loaded.note_silence(2.0)
    assert (loaded.known_s, loaded.tokens) == (0.0, None)


def test_an_idle_servers_frames_come_seldom() -> None:
    state = TopState()
    for number in (1, 2, 3):
        state.apply(frame(number * 5.0, number))
    assert state.tokens is not None
    assert (state.tokens.per_s, state.tokens.seconds) == (0.0, 5.0)


def test_one_app_does_not_crowd_out_what_others_ended() -> None:
    state = TopState()
    apps = ["quiet", *["busy"] * 20, "other"]
    for number, app in enumerate(apps):
        state.apply(frame(number / 5, number, {}, ended=[{"id": str(number), "app": app}]))
    assert [row["id"] for row in state.ended] == ["21", "20", "19", "18", "17", "16", "15", "0"]
