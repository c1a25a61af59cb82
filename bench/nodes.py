"""A node of its own for each cell of an experiment: one that dies takes no other cell with it."""

from __future__ import annotations

import local


def results(module, runs, say, **options) -> list[dict]:
    """What main/1 of the module prints for each run: its arguments, and what it is to tell of, where it cannot."""
    found = []
    for arguments, told in runs:
        try:
            found += local.results(module, arguments, say, **options)
        except RuntimeError as error:
            say(f"{module}: failed: {error}")
            found += [{**each, "failed": str(error)} for each in told]
    if all("failed" in each for each in found):
        raise RuntimeError(found[0]["failed"])
    return found
