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
    """Replacements in the source of a module, and the faults that then must show."""

    module: str
    edits: tuple
    kinds: tuple
    # The clients that notice.
    crews: tuple = ("records",)
    # Whether only reads with a level show it.
    needs_levels: bool = False


NAMES = ("names",)
IS_VALID = "        erlang:monotonic_time(millisecond) < atomics:get(Numbers, ?UNTIL).\n"
CHANGES = {
    # A batch that is sent again looks like another node's, so the group applies it again.
    "de-duplication": Change(
        "durable/todana_batcher",
        (("""    fun(#batch{sequence = Sequence} = Batch, Relay) ->
        ok = send(Batch, Leader, State),
""", """    fun(#batch{sequence = Sequence, bytes = Bytes} = Kept, Relay) ->
        <<Head:4/binary, Origin:64/little, Rest/binary>> = Bytes,
        Batch = Kept#batch{bytes = <<Head/binary, (Origin + 1):64/little, Rest/binary>>},
        ok = send(Batch, Leader, State),
"""),),
        ("isolate", "freeze_briefly", "flap", "freeze", "delay"),
    ),
    # A node that starts does not ask how far the log goes.
    "the gate": Change(
        "durable/todana_group",
        ((
            "        {ok, Index} ?= reached(Group, Opened),\n",
            "        {ok, Index} ?= case ok of ok -> {ok, todana_nif:group_applied(Group)}; _ -> reached(Group, Opened) end,\n",
        ),),
        ("kill", "kill_all", "kill_twice", "install_snapshot"),
    ),
    # Each node takes its own word for how far the log goes.
    "the read index": Change(
        "durable/todana_members",
        ((
            "    try ra:consistent_query(Servers, Query, TimeoutMs) of\n",
            "    try {ok, todana_nif:group_applied(0), {Servers, Query, TimeoutMs}} of\n",
        ),),
        ("isolate", "kill_all", "kill_majority"),
        needs_levels=True,
    ),
    # A removal that is late takes the name from the next process that has it.
    "the reference of a removal": Change(
        "names/todana_scope_records",
        ((
            "has(Ref, {ok, Value, State}) when element(2, Value) =:= Ref -> {true, State};\n",
            "has(_Any, {ok, _Value, State}) -> {true, State};\n",
        ),),
        ("transfer", "freeze_briefly", "delay"),
        NAMES,
    ),
    # A process that ends while it is registered: its name is removed before it is written, and not again.
    "the outcome before a removal": Change(
        "names/todana_claim_watcher",
        (
            ("            Held = [Claim || _ := {held, Claim} <- Claims],\n", "            Held = [Claim || _ := {_, Claim} <- Claims],\n"),
            (
                "        {ok, {released, _}} -> remove(Claim, State);\n",
                "        {ok, {released, _}} -> remove(Claim, State);\n        error -> State;\n",
            ),
        ),
        ("transfer", "freeze_briefly", "delay"),
        NAMES,
    ),
    # A registration is executed after its session has ended, so nobody removes it.
    "the session of a registration": Change(
        "names/todana_claim_writes",
        (("            {commit, [OfSession | Checks], ", "            {commit, [Check || OfSession =/= none, Check <- Checks], "),),
        ("isolate_and_kill",),
        NAMES,
    ),
    # Two processes get a name at once.
    "the record of a name": Change(
        "names/todana_scope_records",
        ((
            "    {commit(Table, [{Key, State} | Checks], Writes), Decided};\n",
            "    {commit(Table, [Check || {Key, State} =/= none, Check <- Checks], Writes), Decided};\n",
        ),),
        ("transfer", "delay"),
        NAMES,
    ),
    # A name that was freed at another node is refused.
    "the question before a refusal": Change(
        "names/todana_claim_writes",
        (("        {no, _} ->\n            maybe\n", "        {no, _} when Claims =:= [] ->\n            maybe\n"),),
        ("delay", "lose"),
        NAMES,
    ),
    # A node finds a process of its own that has ended.
    "the look at the owner": Change(
        "names/todana_watchers",
        (("has_ended(Pid) -> node(Pid) =:= node() andalso not is_process_alive(Pid).\n", "has_ended(Pid) -> node(Pid) =:= none.\n"),),
        ("slow_disks", "delay"),
        NAMES,
    ),
    # Members of a node that was silent stay away.
    "the return of members": Change(
        "names/todana_scope_session",
        (("    case todana_group_members:join_again(Shared, Claim) of\n", "    case hd([ok, Shared, Claim]) of\n"),),
        ("freeze_for_long",),
        NAMES,
    ),
    # Copies of names and groups are used as long as nothing is known of a change.
    "the time of a copy": Change(
        "names/todana_name_cache",
        ((IS_VALID, "        none_ms() < atomics:get(Numbers, ?UNTIL).\n"),),
        ("isolate", "isolate_for_long", "isolate_all"),
        NAMES,
    ),
    "the time of a copy on a guest": Change(
        "names/todana_name_cache",
        ((IS_VALID, """        (erlang:monotonic_time(millisecond) < atomics:get(Numbers, ?UNTIL)
            orelse todana_guest:is_guest()
                andalso none_ms() < atomics:get(Numbers, ?UNTIL)).
"""),),
        ("isolate_guest",),
        NAMES,
    ),
    # The seat of a guest writes what was submitted before the session was fenced, and may be taken back by now.
    "the basis of a registration": Change(
        "names/todana_claim_writes",
        (
            ("        {ok, Basis} -> ok;\n        {ok, Now} -> {other, Now};\n", "        {ok, _Now} when Basis =/= none -> ok;\n"),
            ("            {commit, [OfSession | Checks], ", "            {commit, [Check || OfSession =/= none, Check <- Checks], "),
        ),
        ("freeze_seat", "change_seats"),
        NAMES,
    ),
    # The next seat of a guest may be behind what its clients have seen.
    "the index that a guest has seen": Change(
        "guests/todana_guest",
        (("    Seen = {State#state.log, todana_nif:guest_index()},\n", "    Seen = {State#state.log, 0 * todana_nif:guest_index()},\n"),),
        ("seat_behind",),
    ),
    # What clients of a guest have submitted goes to the next seat again, though the one before may have executed it.
    "one seat for each write": Change(
        "guests/todana_guest",
        (
            ("            Pid ! {todana_parcel, Parcel},\n            send(State);\n", """            Pid ! {todana_parcel, Parcel},
            Before = case get(sent) of undefined -> []; Sent -> Sent end,
            _ = put(sent, lists:sublist([Parcel | Before], 4)),
            send(State);
"""),
            ("    Monitor = monitor(process, Pid),\n    _ = Log =/= Before ", """    Monitor = monitor(process, Pid),
    _ = [Pid ! {todana_parcel, P} || Sent <- [get(sent)], Sent =/= undefined, P <- lists:reverse(Sent)],
    _ = Log =/= Before """),
        ),
        ("cut_from_seat", "freeze_seat", "change_seats"),
    ),
    # The same for calls of the Erlang API.
    "one seat for each call": Change(
        "guests/todana_away",
        (("                lost when Kind =:= write ->\n                    {error, unknown};\n", ""),),
        ("cut_from_seat", "freeze_seat", "change_seats"),
    ),
    # A guest says that a write was executed, when its seat is lost.
    "the unknown outcome of a call": Change(
        "guests/todana_away",
        (("                lost when Kind =:= write ->\n                    {error, unknown};\n", """                lost when Kind =:= write ->
                    case Question of
                        [_, Put | _] when Put =:= put; Put =:= put_many -> ok;
                        _ -> {error, unknown}
                    end;
"""),),
        ("cut_from_seat", "freeze_seat", "change_seats"),
    ),
}


def without(protection) -> dict:
    """The environment of nodes without this protection."""
    change = CHANGES[protection]
    source = served.ROOT / "src" / f"{change.module}.erl"
    text = source.read_text()
    for old, new in change.edits:
        assert text.count(old) == 1, f"{source} is not as this test knows it: adapt sabotage.py"
        text = text.replace(old, new)
    target = stores.BUILT / "without" / protection.replace(" ", "-")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    changed = target / source.name
    changed.write_text(text)
    erlc = served.ROOT / ".toolchain" / "bin" / "erlc"
    program = str(erlc) if erlc.exists() else shutil.which("erlc")
    subprocess.run([program, "-o", target, changed], check=True)
    return {"ERL_FLAGS": f" -pa {target}"}
