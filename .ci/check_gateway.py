"""The installed wheel with the extra `gateway` alone: `agentrt gateway` in front of a scripted engine.

Run by .ci/run with the Python of an environment that holds nothing else.
"""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import httpx

AGENTRT = str(Path(sys.executable).with_name("agentrt"))
MESSAGES = [{"role": "user", "content": "What is the weather in Oslo?"}]
TOOL = {"type": "function", "function": {"name": "get_weather"}}
CALL = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}


class Engine(BaseHTTPRequestHandler):
    """Calls a tool, and answers once the conversation ends in a tool's output."""

    protocol_version = "HTTP/1.1"
    cached = threading.Event()
    """Set once the client has submitted the tool's output."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        last = body["messages"][-1]
        if last["role"] == "tool":
            self._send({"content": f"It is {last['content']}."}, "stop")
        else:
            assert self.cached.wait(60)
            self._send({"tool_calls": [CALL]}, "tool_calls")
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: dict[str, object], finish_reason: str) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        self.wfile.write(f"data: {json.dumps({'id': 'e', 'choices': [choice]})}\n\n".encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def gateway(upstream: str) -> Iterator[httpx.Client]:
    """A client of a gateway process, which must end in order."""
    command = [AGENTRT, "gateway", "--upstream", upstream, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = process.stderr.readline().rsplit(" ", 1)[1].strip()
        token = process.stderr.readline().rsplit(" ", 1)[1].strip()
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()


def check_a_cached_call(client: httpx.Client) -> None:
    request = {"model": "m", "stream": True, "messages": MESSAGES, "tools": [TOOL]}
    entry = {"name": "get_weather", "params": {"city": "Oslo"}, "output": "12 C"}
    with client.stream("POST", "/chat/completions", json=request) as response:
        lines = (line[6:] for line in response.iter_lines() if line.startswith("data: "))
        id = json.loads(next(lines))["id"]
        cached = client.post(f"/cache-tool-output/{id}", json=[entry])
        assert cached.json() == {"cached": 1}, cached.text
        Engine.cached.set()
        *chunks, end = lines
    assert end == "[DONE]"
    deltas = [json.loads(chunk)["choices"][0]["delta"] for chunk in chunks]
    assert [result["content"] for delta in deltas for result in delta.get("tool_results", ())] == ["12 C"]
    assert "".join(delta.get("content") or "" for delta in deltas) == "It is 12 C."


def check_what_is_not_installed() -> None:
    for module in ("llguidance", "numpy", "openvino", "openvino_genai", "prometheus_client"):
        assert find_spec(module) is None, module
    served = subprocess.run([AGENTRT, "serve"], capture_output=True, text=True, check=False)
    assert served.returncode == 2
    assert "pip install 'agentrt[serve]'" in served.stderr


def main() -> None:
    check_what_is_not_installed()
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as engine:
        threading.Thread(target=engine.serve_forever).start()
        try:
            with gateway(f"http://127.0.0.1:{engine.server_port}/v1") as client:
                check_a_cached_call(client)
        finally:
            engine.shutdown()


if __name__ == "__main__":
    main()
