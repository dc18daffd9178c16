"""Pages of lists, in OpenAI's way: ``limit``, ``after`` and ``order``, and ``has_more`` in the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from agentrt.errors import InvalidRequestError

Item = TypeVar("Item")


class PageQuery(BaseModel):
    """Which page of a list a request wants."""

    model_config = ConfigDict(extra="ignore")

    limit: int = Field(default=20, ge=1, le=100)
    after: str | None = None
    """Id of the last item of the page before."""
    order: Literal["asc", "desc"] = "desc"
    """Whether the oldest item is the first, or the newest."""


class PageBody(BaseModel, Generic[Item]):
    """One page of a list."""

    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    """Give it as ``after`` to get the next page. None if the page is empty."""
    has_more: bool


def page_of(
    items: Sequence[Item], id_of: Callable[[Item], str], query: PageQuery, show: Callable[[Item], Any]
) -> dict[str, Any]:
    """Return the fields of a :class:`PageBody` of ``items``, which are in ascending order.

    ``show`` returns what the page has of an item.

    Raises:
        InvalidRequestError: no item has the id ``after``.
    """
    ordered = items if query.order == "asc" else items[::-1]
    begin = 0
    if query.after is not None:
        places = (place for place, item in enumerate(ordered, 1) if id_of(item) == query.after)
        begin = next(places, 0)
        if not begin:
            raise InvalidRequestError(
                "after", f"the list has no {query.after!r}, or no longer. Begin again without it."
            )
    end = begin + query.limit
    page = ordered[begin:end]
    first, last = (id_of(page[0]), id_of(page[-1])) if page else (None, None)
    data = [show(item) for item in page]
    return {"data": data, "first_id": first, "last_id": last, "has_more": len(ordered) > end}
