"""Frames of a live page, as servers send them."""

from __future__ import annotations

import json

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def frame(
    t: float, number: int = 1, counts: dict[str, int] | None = None, **model: object
) -> dict[str, object]:
    """Return a frame of a server with one model."""
    names = ("sampled_tokens", "drafted_tokens", "accepted_tokens", "answered_calls")
    counted = dict.fromkeys((*names, "finished", "cancelled", "failed", "preemptions"), 0) | (counts or {})
    whole = {"name": "m", "status": "loaded", "xpus": ["prefill", "decode"], "counts": counted}
    return {"n": number, "t": t, "models": [whole | model]}


def event(frame: dict[str, object]) -> bytes:
    """Return a frame as it is sent."""
    return f"data: {json.dumps(frame, separators=(',', ':'))}\n\n".encode()


def request(**values: object) -> dict[str, object]:
    """Return a row of a request that waits."""
    return {
        "class": "proactive",
        "app": "notes",
        "id": "gen_0123",
        "context": "",
        "state": "waiting",
        "promoted": False,
        "position": 1,
        "age_s": 1.0,
        "tokens": 0,
        "prefilled": 0.0,
        "first_token_s": 1.0,
    } | values
