"""A server that speaks the part of the Hugging Face hub's API that downloads use, from files in memory."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


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

    def respond(self, handler: BaseHTTPRequestHandler, *, body: bool) -> None:
        headers = {key.lower(): value for key, value in handler.headers.items()}
        self.requests.append((handler.command, handler.path, headers))
        path = handler.path.split("?")[0]
        model = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path)
        if model:
            files = self.repositories.get(model[1])
            if files is None or model[2] not in (None, "main", COMMIT):
                code = "RepoNotFound" if files is None else "RevisionNotFound"
                self._send(handler, 404, b"{}", {"X-Error-Code": code}, body=body)
            else:
                self._send(handler, 200, json.dumps(self._info(model[1], files)).encode(), {}, body=body)
            return
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        content = self.repositories.get(file[1], {}).get(file[2]) if file else None
        if content is None:
            self._send(handler, 404, b"{}", {"X-Error-Code": "EntryNotFound"}, body=body)
            return
        self._send_file(handler, content, headers.get("range"), body=body)

    def _info(self, repository: str, files: Mapping[str, bytes]) -> dict[str, Any]:
        siblings = [
            {
                "rfilename": name,
                "size": len(content),
                "lfs": {
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 1,
                },
            }
            for name, content in files.items()
        ]
        return {"id": repository, "sha": COMMIT, "siblings": siblings}

    def _send_file(
        self, handler: BaseHTTPRequestHandler, content: bytes, wanted: str | None, *, body: bool
    ) -> None:
        etag = hashlib.sha256(content).hexdigest()
        if self.corrupt:
            content = b"?" * len(content)
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        status = 206 if wanted else 200
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if start >= len(content) > 0:
            self._send(handler, 416, b"", headers, body=body)
            return
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._send(handler, status, content[start:], headers, body=body)

    def _send(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        content: bytes,
        headers: Mapping[str, str],
        *,
        body: bool,
    ) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        if not body:
            return
        if self.break_after is not None and len(content) > self.break_after:
            handler.wfile.write(content[: self.break_after])
            handler.wfile.flush()
            handler.close_connection = True
            self.break_after = None
            handler.connection.close()
            return
        handler.wfile.write(content)


@contextmanager
def serve_hub(repositories: Mapping[str, Mapping[str, bytes]]) -> Iterator[HubServer]:
    """Serve ``repositories`` (files by name, by repository) on a free port of this machine."""
    hub = HubServer(repositories)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.respond(self, body=True)

        def do_HEAD(self) -> None:
            hub.respond(self, body=False)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
