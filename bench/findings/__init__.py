"""What the report states about each experiment. One module per experiment turns its raw results into a section."""

from __future__ import annotations

from .e1 import e1
from .e2 import e2
from .e3 import e3
from .e4 import e4
from .e5 import e5
from .section import Section

SECTIONS = {"e1": e1, "e2": e2, "e3": e3, "e4": e4, "e5": e5}


def failed(name, reason) -> Section:
    """An experiment that has no results, with the reason."""
    return Section(name, "This experiment failed", "", "", "", "", "", [], [], [], [], failed=reason)
