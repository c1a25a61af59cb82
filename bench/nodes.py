"""One Erlang node per cell of an experiment, so that a node that dies affects no other cell."""

from __future__ import annotations

import subprocess

import local


def results(module, runs, say, *, also=(), **options) -> list[dict]:
    """The results that main/1 of the module prints. A run is its arguments and the cells that are expected of it; a cell that it
    does not print has failed."""
    found = []
    with local.compiled(module, *also) as directory:
        for arguments, expected in runs:
            # A node that receives a request to end reports no error.
            cells, reason = [], "the Erlang node ended too early"
            try:
                cells = local.run_node(directory, module, arguments, say, **options)
            except local.NodeFailed as error:
                cells, reason = error.found, str(error)
            except (OSError, subprocess.SubprocessError) as error:
                reason = str(error)
            missing = [each for each in expected if not any(each.items() <= cell.items() for cell in cells)]
            if missing:
                say(f"{module}: failed: {reason}")
            found += cells + [{**each, "failed": reason} for each in missing]
    if found and all("failed" in each for each in found):
        raise RuntimeError(found[0]["failed"])
    return found
