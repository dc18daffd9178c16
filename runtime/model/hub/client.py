"""The client with which ``huggingface_hub`` sends its requests: bounded waits, and answers that are checked.

The library makes paths of what a hub answers: of the ETag (``blobs/ETAG``) and of the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import httpx2
from huggingface_hub import constants, get_session, set_client_factory

from agentrt.errors import ModelDownloadError

from .path_names import path_problem
from .web import Say

_TRIES: Final = 2
"""Requests in a row that may get no answer: the library sends the first one again, up to six times."""


@dataclass
class HubGuard:
    """What is checked of the answers about one repository."""

    repository: str
    revision: str | None
    say: Say
    _unanswered: int = 0

    def install(self) -> None:
        """Let ``huggingface_hub`` send all requests of this process by a client that asks this guard."""
        hooks = get_session().event_hooks  # the library's own: offline mode, identification of requests
        set_client_factory(lambda: _GuardedClient(self, hooks))

    def bound(self, request: httpx2.Request) -> float:
        """Let no wait of ``request`` be longer than the library's own bounds; return the seconds."""
        seconds = float(max(constants.HF_HUB_ETAG_TIMEOUT, constants.HF_HUB_DOWNLOAD_TIMEOUT))
        request.extensions["timeout"] = httpx2.Timeout(seconds).as_dict()
        return seconds

    def unanswered(self, request: httpx2.Request, error: httpx2.TransportError, seconds: float) -> None:
        """Say that no answer came.

        Raises:
            ModelDownloadError: it is not the first one in a row.
        """
        self._unanswered += 1
        why = f"within {seconds:g} s" if isinstance(error, httpx2.TimeoutException) else f"({error})"
        self.say(f"no answer {why} from {_address(request)}")
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
        if constants.ENDPOINT.rstrip("/") != constants.HUGGINGFACE_CO_URL_HOME.rstrip("/"):
            # A mirror could name any other server for Xet, whose client is not this one.
            headers.pop(constants.HUGGINGFACE_HEADER_X_XET_HASH, None)

    def _refusal(self, response: httpx2.Response) -> str:
        """Return what an answer with the status of an error means, and what to do."""
        code, status = response.headers.get("x-error-code"), response.status_code
        url = response.request.url
        if code == "GatedRepo":
            return (
                f"{self.repository} is shared only with those who accepted its terms. Accept them on its "
                "page, and set HF_TOKEN to a token of yours."
            )
        if code == "RevisionNotFound":
            return f"{self.repository} has no revision {self.revision!r}. Leave it out for the newest one."
        if code == "RepoNotFound" or (code is None and status in (401, 404) and "/api/models/" in url.path):
            return (
                f"there is no repository {self.repository}, or it is private. Check the name and "
                "HF_ENDPOINT, or set HF_TOKEN to a valid token."
            )
        return (
            f"{_address(response.request)} answered {status} {httpx2.codes.get_reason_phrase(status)}. Check "
            "HF_ENDPOINT and HF_TOKEN, and pull it again later."
        )


class _GuardedClient(httpx2.Client):
    def __init__(self, guard: HubGuard, hooks: Any) -> None:
        super().__init__(event_hooks=hooks, follow_redirects=True)
        self._guard = guard

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        seconds = self._guard.bound(request)
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


def _address(request: httpx2.Request) -> str:
    return str(request.url.copy_with(query=None))
