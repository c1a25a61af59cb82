"""Rows that do not hold the rule, and what bounds them: the page names both."""

from __future__ import annotations

# The beginning of a row's name, and why it is as it is: the limit, and what happens beyond it.
EXCEPTIONS: dict[str, str] = {
    **{
        f"resp: {name}": "its own event loop copies the argument in one step, some 0.7 ms a MiB; `value_bytes_max` bounds it (64 MiB by default)"
        for name in ("PING of", "ECHO of")
    },
    **{
        f"resp: {name}": "a process of the node has just read the value and still has it, so the first change copies it in one step on its own "
        "event loop, some 0.6 ms a MiB and without a lock; `value_bytes_max` bounds it (64 MiB by default)"
        for name in ("SETRANGE of a byte in", "APPEND of a byte to")
    },
    **{
        f"kyoto: {name}": "its own event loop copies the value in one step, some 0.6 ms a MiB; `value_bytes_max` bounds it (64 MiB by default)"
        for name in ("PUT of", "get of", "seize of", "append to", "cas of")
    },
    "kyoto: set_bulk of": "the longest step of a request with a million inputs, of which there may be 1,048,576, is some 25 ms",
    "kyoto: match_prefix of all": "the longest step of an answer of five million keys is some 25 ms; `max` bounds it",
    "erlang: fetch/4 with": "30,000 processes give up at one time, and wait for a scheduler among themselves; no key waits for another",
    "erlang: put_many/3 of 1,000,000 pairs, atomic": "it is refused, and the error carries the pairs: the Erlang VM copies them "
    "when the process ends; an atomic `put_many/3` takes 32,768 pairs at most",
    "erlang: fold_range/5 of all": "the figure includes the garbage collections of the process that folds five million records",
    "erlang: fold_snapshot/3": "the figure includes the garbage collections of the process that folds five million records",
}


def reason(name) -> str | None:
    """Why a row is an exception, None if nobody has said."""
    return next((words for beginning, words in EXCEPTIONS.items() if name.startswith(beginning)), None)
