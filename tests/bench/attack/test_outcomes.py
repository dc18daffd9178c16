"""What counts as a wrong answer."""

from __future__ import annotations

import json

import pytest

from agentrt.bench.attack.outcomes import Outcomes, is_typed
from agentrt.bench.attack.wire import NO_ANSWER, Answer, post

ERROR = {"message": "no.", "type": "invalid_request_error", "param": None, "code": None}


def answer(status: int, body: object, content_type: str = "application/json") -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, content, True, content_type)


@pytest.mark.parametrize(
    "wrong",
    [
        NO_ANSWER,
        answer(400, b"Bad Request"),
        answer(400, b"[" * 100_000),
        answer(422, {"detail": []}),
        answer(400, {"error": "no."}),
        answer(400, {"error": {**ERROR, "type": "surprise"}}),
        answer(400, {"error": {"message": "no."}}),
        answer(200, b'data: {"error": {"message": "no."}}\n\n', "text/event-stream"),
    ],
)
def test_errors_that_are_not_documented(wrong: Answer) -> None:
    assert not is_typed(wrong)


@pytest.mark.parametrize(
    "right",
    [
        answer(200, b"anything"),
        answer(400, {"error": ERROR}),
        answer(
            200,
            b'data: {"a": 1}\n\ndata: %b\n\n' % json.dumps({"error": ERROR}).encode(),
            "text/event-stream",
        ),
    ],
)
def test_answers_that_are_documented(right: Answer) -> None:
    assert is_typed(right)


def test_errors_in_the_form_of_ollama_are_for_its_routes_only() -> None:
    error = answer(400, b'{"error": "messages: is empty."}')
    assert is_typed(error, path="/api/chat")
    assert not is_typed(error, path="/v1/chat/completions")
    assert not is_typed(answer(400, b'{"error": {}}'), path="/api/chat")
    assert not is_typed(answer(401, {"error": ERROR}), path="/api/chat")


def test_an_answer_to_head_has_no_body() -> None:
    assert is_typed(answer(404, b""), "HEAD")


def test_every_wrong_answer_is_counted_and_shown() -> None:
    outcomes = Outcomes()
    outcomes.add(post("a", "/", {}), answer(200, {}))
    outcomes.add(post("b", "/", {"x": 1}), answer(500, b"oops"))
    outcomes.add(post("c", "/", {}), answer(502, {"error": ERROR}), expected=(502,))
    outcomes.freeze("d", 0.2, 0.1)
    assert (outcomes.tries, outcomes.server_errors, outcomes.untyped_errors) == (3, 1, 1)
    assert [name for name, _ in outcomes.problems] == ["b", "b", "d"]
    assert outcomes.longest_freeze_s == 0.2
