"""Settings of background jobs."""

from __future__ import annotations

from pydantic import Field

from agentrt.settings import Settings

from .conditions import BackgroundConditions


class BackgroundConfig(Settings, strict=True):
    """How many background jobs there may be, how long they are kept, and when they run. Immutable."""

    concurrent: int = Field(default=4, ge=1)
    """Jobs that run at once, in the same batches."""
    jobs_per_app: int = Field(default=256, ge=1)
    """Jobs of an app that have not ended. Further ones are refused."""
    bytes_per_app: int = Field(default=64 * 2**20, ge=1)
    """Bytes of the requests of an app's jobs, of those that have ended, too, as long as they are kept."""
    seconds_per_app: float | None = Field(default=None, gt=0)
    """Seconds within 24 hours for which jobs of an app may run. Once they are used up, further jobs are
    refused; None sets no limit."""
    expire_s: float = Field(default=7 * 86_400.0, gt=0)
    """A job that has not ended after this time fails."""
    keep_s: float = Field(default=86_400.0, gt=0)
    """How long a job is kept after its end. What it has answered stays a stored response."""
    events_s: float = Field(default=600.0, gt=0)
    """How long the events of its stream are kept after its end."""
    conditions: BackgroundConditions = BackgroundConditions()
    """When jobs wait for the machine."""
