"""The client with which ``huggingface_hub`` sends its requests: bounded waits, and answers that are checked.

The library makes paths of what a hub answers: of the ETag (``blobs/ETAG``) and of the commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import httpx2
from huggingface_hub import constants, get_session, set_client_factory

from agentrt.errors import ModelDownloadError

from .names import path_problem
from .web import Say

_TRIES: Final = 2
"""Requests in a row that may get no answer: the library sends the first one again, up to six times."""
_MAX_BYTES: Final = 64 << 20
"""Of an answer that is no file: the listing of 100,000 files has some 30 MB."""
_MAX_S: Final = 60.0
"""Seconds for such an answer, however steadily it drips."""


class HubGuard:
    """What is checked of the answers about one repository."""

    def __init__(self, repository: str, revision: str | None, say: Say) -> None:
        """``say`` is told when no answer comes."""
        self._repository = repository
        self._revision = revision
        self._say = say
        self._unanswered = 0
        self._announced: int | None = None

    def install(self) -> None:
        """Let ``huggingface_hub`` send all requests of this process by a client that asks this guard."""
        session = get_session()
        # The library's own: offline mode, identification of requests.
        hooks = session.own_hooks if isinstance(session, _GuardedClient) else session.event_hooks
        set_client_factory(lambda: _GuardedClient(self, hooks))

    def bound_request(self, request: httpx2.Request) -> float:
        """Let no wait of ``request`` be longer than the library's own bounds; return the seconds."""
        seconds = float(max(constants.HF_HUB_ETAG_TIMEOUT, constants.HF_HUB_DOWNLOAD_TIMEOUT))
        request.extensions["timeout"] = httpx2.Timeout(seconds).as_dict()
        request.headers["accept-encoding"] = "identity"
        return seconds

    def bound_answer(self, response: httpx2.Response) -> None:
        """Let ``response`` have no more bytes than announced, or than an answer that is no file can have."""
        response.headers.pop("content-encoding", None)  # none was asked for: what is counted is what is kept
        is_file = response.is_success and self._announced is not None
        most = self._announced if is_file and self._announced is not None else _MAX_BYTES
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Bounded(
            response.stream, most, None if is_file else _MAX_S, _address(response.request)
        )

    def unanswered(self, request: httpx2.Request, error: httpx2.TransportError, seconds: float) -> None:
        """Say that no answer came.

        Raises:
            ModelDownloadError: it is not the first one in a row.
        """
        self._unanswered += 1
        why = f"within {seconds:g} s" if isinstance(error, httpx2.TimeoutException) else f"({error})"
        self._say(f"no answer {why} from {_address(request)}")
        if self._unanswered >= _TRIES:
            raise ModelDownloadError(
                f"{_address(request)} could not be downloaded: no answer {why}. Check the network, "
                "HF_ENDPOINT and HF_HUB_OFFLINE, or set HF_HUB_DOWNLOAD_TIMEOUT to more seconds, and pull it "
                "again."
            ) from error

    def check(self, response: httpx2.Response) -> None:
        """Check an answer.

        Raises:
            ModelDownloadError: it is an error, or names a path outside the cache folder.
        """
        self._unanswered = 0
        if response.status_code >= httpx2.codes.BAD_REQUEST:
            raise ModelDownloadError(self._refusal(response))
        headers = response.headers
        if response.request.method != "HEAD":
            return  # no path is made of it
        etag = headers.get(constants.HUGGINGFACE_HEADER_X_LINKED_ETAG) or headers.get("etag")
        named = {
            "ETag": None if etag is None else etag.lstrip("W/").strip('"'),  # what the library makes of it
            "commit": headers.get(constants.HUGGINGFACE_HEADER_X_REPO_COMMIT),
        }
        for what, name in named.items():
            problem = None if name is None else path_problem(name)
            if problem is not None:
                raise ModelDownloadError(
                    f"{_address(response.request)} states the {what} {name!r}, under which nothing can be "
                    f"stored: {problem}. Check HF_ENDPOINT: no hub answers so."
                )
        size = headers.get(constants.HUGGINGFACE_HEADER_X_LINKED_SIZE) or headers.get("content-length") or ""
        self._announced = int(size) if size.isascii() and size.isdigit() else _MAX_BYTES
        if constants.ENDPOINT.rstrip("/") != constants.HUGGINGFACE_CO_URL_HOME.rstrip("/"):
            # A mirror could name any other server for Xet, whose client is not this one.
            headers.pop(constants.HUGGINGFACE_HEADER_X_XET_HASH, None)

    def _refusal(self, response: httpx2.Response) -> str:
        """Return what an answer with the status of an error means, and what to do."""
        code, status = response.headers.get("x-error-code"), response.status_code
        if code == "GatedRepo":
            return (
                f"{self._repository} is shared only with those who accepted its terms. Accept them on its "
                "page, and set HF_TOKEN to a token of yours."
            )
        if code == "RevisionNotFound":
            return f"{self._repository} has no revision {self._revision!r}. Leave it out for the newest one."
        asked = response.request.url.path
        if code == "RepoNotFound" or (code is None and status in (401, 404) and "/api/models/" in asked):
            return (
                f"there is no repository {self._repository}, or it is private. Check the name and "
                "HF_ENDPOINT, or set HF_TOKEN to a valid token."
            )
        return (
            f"{_address(response.request)} answered {status} {httpx2.codes.get_reason_phrase(status)}. Check "
            "HF_ENDPOINT and HF_TOKEN, and pull it again later."
        )


class _GuardedClient(httpx2.Client):
    def __init__(self, guard: HubGuard, hooks: dict[str, list[Any]]) -> None:
        self.own_hooks = hooks
        # Of each answer, redirections included, before its content is read.
        answer_hooks = [*hooks.get("response", ()), guard.bound_answer]
        super().__init__(event_hooks={**hooks, "response": answer_hooks}, follow_redirects=True)
        self._guard = guard

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        seconds = self._guard.bound_request(request)
        try:
            response = super().send(request, **options)
        except httpx2.TransportError as error:
            self._guard.unanswered(request, error, seconds)
            raise
        try:
            self._guard.check(response)
        except ModelDownloadError:
            response.close()
            raise
        return response


class _Bounded(httpx2.SyncByteStream):
    """The content of an answer, of at most ``most`` bytes and ``seconds``."""

    def __init__(
        self, content: httpx2.SyncByteStream, most: int, seconds: float | None, address: str
    ) -> None:
        self._content = content
        self._most = most
        self._seconds = seconds
        self._address = address

    def __iter__(self) -> Iterator[bytes]:
        begun, size = time.monotonic(), 0
        for piece in self._content:
            size += len(piece)
            if size > self._most:
                raise ModelDownloadError(
                    f"{self._address} sends more than {self._most} bytes, the most that such an answer can "
                    "have. Check HF_ENDPOINT."
                )
            if self._seconds is not None and time.monotonic() - begun > self._seconds:
                raise ModelDownloadError(
                    f"{self._address} takes longer than {self._seconds:g} s to send its answer. Check the "
                    "network and HF_ENDPOINT."
                )
            yield piece

    def close(self) -> None:
        self._content.close()


def _address(request: httpx2.Request) -> str:
    return str(request.url.copy_with(query=None))
