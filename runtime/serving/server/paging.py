"""Pages of lists, in OpenAI's way: ``limit``, ``after`` and ``order``, and ``has_more`` in the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ..http.errors import ApiError

T = TypeVar("T")


class PageQuery(BaseModel):
    """Which page of a list a request wants."""

    model_config = ConfigDict(extra="ignore")

    limit: int = Field(default=20, ge=1, le=100)
    after: str | None = None
    """Id of the last item of the page before."""
    order: Literal["asc", "desc"] = "desc"
    """Whether the oldest item is the first, or the newest."""


class PageBody(BaseModel, Generic[T]):
    """One page of a list."""

    object: Literal["list"] = "list"
    data: list[T]
    first_id: str | None
    last_id: str | None
    """Give it as ``after`` to get the next page. None if the page is empty."""
    has_more: bool


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and where they are in it."""

    items: Sequence[T]
    ids: Sequence[str]
    has_more: bool

    def fields(self, data: Sequence[Any]) -> dict[str, Any]:
        """Return the fields of a :class:`PageBody`; ``data`` is what it has of each item."""
        first, last = (self.ids[0], self.ids[-1]) if self.ids else (None, None)
        return {"data": data, "first_id": first, "last_id": last, "has_more": self.has_more}


def page_of(items: Sequence[T], id_of: Callable[[T], str], query: PageQuery) -> Page[T]:
    """Return a page of ``items``, which are in ascending order.

    Raises:
        ApiError: 400, no item has the id ``after``.
    """
    ordered = items if query.order == "asc" else items[::-1]
    begin = 0
    if query.after is not None:
        places = (place for place, item in enumerate(ordered, 1) if id_of(item) == query.after)
        begin = next(places, 0)
        if not begin:
            raise ApiError(
                400,
                f"after: the list has no {query.after!r}, or no longer. Begin again without it.",
                param="after",
                code="invalid_value",
            )
    end = begin + query.limit
    page = ordered[begin:end]
    return Page(page, [id_of(item) for item in page], has_more=len(ordered) > end)
