"""A node of its own for each cell of an experiment: one that dies takes no other cell with it."""

from __future__ import annotations

import subprocess

import local


def results(module, runs, say, *, also=(), **options) -> list[dict]:
    """What main/1 of the module prints for each run: its arguments, and what it is to tell of, where it cannot."""
    found = []
    with local.compiled(module, *also) as directory:
        for arguments, told in runs:
            # A node that is asked to end does so without an error.
            cells, reason = [], "the Erlang node ended too early"
            try:
                cells = local.run_node(directory, module, arguments, say, **options)
            except local.NodeFailed as error:
                cells, reason = error.found, str(error)
            except (OSError, subprocess.SubprocessError) as error:
                reason = str(error)
            missing = [each for each in told if not any(each.items() <= cell.items() for cell in cells)]
            if missing:
                say(f"{module}: failed: {reason}")
            found += cells + [{**each, "failed": reason} for each in missing]
    if found and all("failed" in each for each in found):
        raise RuntimeError(found[0]["failed"])
    return found
