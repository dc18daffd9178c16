"""Servers of what downloads use of the Hugging Face hub's API: real ones, and answers in this process."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def asked_at(url: str, root: Path) -> Iterator[pytest.MonkeyPatch]:
    """Let this process's pulls ask the hub at ``url``, and have its cache folders below ``root``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", url)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace("https://huggingface.co", url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)  # as by the command
        patch.setattr(constants, "HF_HUB_CACHE", str(root / "cache" / "hf"))
        patch.setattr("platformdirs.user_cache_path", lambda name: root / "cache" / name)
        yield patch


class HubServer:
    """Repositories of files, and what was requested of them."""

    def __init__(self, repositories: Mapping[str, Mapping[str, bytes]]) -> None:
        self.repositories = repositories
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.break_after: int | None = None
        """Bytes of one body after which the connection breaks, once."""
        self.corrupt = False
        """Whether bodies differ from their stated digests."""
        self.url = ""

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        sent = {key.lower(): value for key, value in handler.headers.items()}
        self.requests.append((handler.command, handler.path, sent))
        status, content, headers = self._answer(handler.path.split("?")[0], sent.get("range"))
        handler.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if self.break_after is None or len(content) <= self.break_after:
            handler.wfile.write(content)
            return
        handler.wfile.write(content[: self.break_after])
        handler.wfile.flush()
        handler.close_connection = True
        self.break_after = None
        handler.connection.close()

    def _answer(self, path: str, wanted: str | None) -> tuple[int, bytes, dict[str, str]]:
        model = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path)
        if model:
            files = self.repositories.get(model[1])
            if files is None or model[2] not in (None, "main", COMMIT):
                return 404, b"{}", {"X-Error-Code": "RepoNotFound" if files is None else "RevisionNotFound"}
            siblings = [
                {"rfilename": name, "lfs": {"sha256": hashlib.sha256(content).hexdigest()}}
                for name, content in files.items()
            ]
            return 200, json.dumps({"id": model[1], "sha": COMMIT, "siblings": siblings}).encode(), {}
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        content = self.repositories.get(file[1], {}).get(file[2]) if file else None
        if content is None:
            return 404, b"{}", {"X-Error-Code": "EntryNotFound"}
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
        if self.corrupt:
            content = b"?" * len(content)
        if wanted is None:
            return 200, content, headers
        start = int(wanted.removeprefix("bytes=").split("-")[0])
        if start >= len(content):
            return 416, b"", headers
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return 206, content[start:], headers | {"Content-Range": span}


@contextmanager
def serve_hub(repositories: Mapping[str, Mapping[str, bytes]]) -> Iterator[HubServer]:
    """Serve ``repositories`` (files by name, by repository) on a free port of this machine."""
    hub = HubServer(repositories)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.respond(self)

        do_HEAD = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
