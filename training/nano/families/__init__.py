"""Tool families: what a tool is called, how it is described, and how people ask for it."""

from .calendar import CALENDAR
from .facts import FACTS
from .family import Family, Parameter
from .files import FILES
from .home import HOME
from .mail import MAIL
from .notes import NOTES
from .places import PLACES
from .services import SERVICES

FAMILIES: dict[str, Family] = {
    family.key: family for family in (*NOTES, *CALENDAR, *MAIL, *FILES, *PLACES, *HOME, *FACTS, *SERVICES)
}

DEMO_FAMILIES = (
    "search_notes",
    "read_note",
    "create_note",
    "list_events",
    "add_event",
    "search_mail",
    "read_mail",
    "search_files",
    "read_file",
    "get_weather",
)
"""The families behind the personal assistant's tools, under their usual names."""

__all__ = ["DEMO_FAMILIES", "FAMILIES", "Family", "Parameter"]
