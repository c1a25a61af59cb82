"""Rows that do not hold the rule, and what bounds them: the page names both."""

from __future__ import annotations

# The beginning of a row's name, and why it is as it is: the limit, and what happens beyond it.
EXCEPTIONS: dict[str, str] = {}


def reason(name) -> str | None:
    """Why a row is an exception, None if nobody has said."""
    return next((words for beginning, words in EXCEPTIONS.items() if name.startswith(beginning)), None)
