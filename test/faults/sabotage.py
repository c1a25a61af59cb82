"""Nodes without one of the protections, to see that the suite notices.

Nothing in the product can switch a protection off. A module is compiled from its source with one change, into a directory that
the node searches first.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

import served
import stores


class Change(NamedTuple):
    """A replacement in the source of a module, and the faults that then must show."""

    module: str
    old: str
    new: str
    kinds: tuple
    # Whether only reads with a level show it.
    needs_levels: bool = False


CHANGES = {
    # A batch that is sent again looks like another node's, so the group applies it again.
    "de-duplication": Change(
        "durable/todana_batcher",
        """    fun(#batch{sequence = Sequence} = Batch, Relay) ->
        ok = send(Batch, Leader, State),
""",
        """    fun(#batch{sequence = Sequence, bytes = Bytes} = Kept, Relay) ->
        <<Head:4/binary, Origin:64/little, Rest/binary>> = Bytes,
        Batch = Kept#batch{bytes = <<Head/binary, (Origin + 1):64/little, Rest/binary>>},
        ok = send(Batch, Leader, State),
""",
        ("isolate", "freeze_briefly", "flap", "freeze", "delay"),
    ),
    # A node that starts does not ask how far the log goes.
    "the gate": Change(
        "durable/todana_group",
        "        {ok, Index} ?= reached(Group, Opened),\n",
        "        {ok, Index} ?= case ok of ok -> {ok, todana_nif:group_applied(Group)}; _ -> reached(Group, Opened) end,\n",
        ("kill", "kill_all", "kill_twice", "install_snapshot"),
    ),
    # Each node takes its own word for how far the log goes.
    "the read index": Change(
        "durable/todana_members",
        "    try ra:consistent_query(Servers, Query, TimeoutMs) of\n",
        "    try {ok, todana_nif:group_applied(0), {Servers, Query, TimeoutMs}} of\n",
        ("isolate", "kill_all", "kill_majority"),
        needs_levels=True,
    ),
}


def without(protection) -> dict:
    """The environment of nodes without this protection."""
    change = CHANGES[protection]
    source = served.ROOT / "src" / f"{change.module}.erl"
    text = source.read_text()
    assert text.count(change.old) == 1, f"{source} is not as this test knows it: adapt sabotage.py"
    target = stores.BUILT / "without" / protection.replace(" ", "-")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    changed = target / source.name
    changed.write_text(text.replace(change.old, change.new))
    erlc = served.ROOT / ".toolchain" / "bin" / "erlc"
    program = str(erlc) if erlc.exists() else shutil.which("erlc")
    subprocess.run([program, "-o", target, changed], check=True)
    return {"ERL_FLAGS": f" -pa {target}"}
