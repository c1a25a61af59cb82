"""Rows that are not within the rule, and what bounds them; the page names both."""

from __future__ import annotations

# The beginning of a row's name, and the reason: the limit, and what happens beyond it.
EXCEPTIONS: dict[str, str] = {
    **{
        f"resp: {name}": "its own event loop copies the argument in one step, about 0.7 ms per MiB; `value_bytes_max` bounds it (64 MiB by default)"
        for name in ("PING of", "ECHO of")
    },
    **{
        f"resp: {name}": "a process of the node has just read the value and still refers to it, so the first change copies it in one step on its own "
        "event loop, about 0.6 ms per MiB and without a lock; `value_bytes_max` bounds it (64 MiB by default)"
        for name in ("SETRANGE of a byte in", "APPEND of a byte to")
    },
    "resp: EVAL of a script that": "the script takes all of its steps, and some of these take longer than others; `script_steps_max` bounds it "
    "(2,000,000 by default)",
    **{
        f"kyoto: {name}": "its own event loop copies the value in one step, about 0.6 ms per MiB; `value_bytes_max` bounds it (64 MiB by default)"
        for name in ("PUT of", "get of", "seize of", "append to", "cas of")
    },
    "kyoto: set_bulk of": "the longest step of a request with a million inputs (the limit is 1,048,576) takes about 25 ms",
    "kyoto: match_prefix of all": "the longest step of a reply with five million keys takes about 25 ms; `max` bounds it",
    "erlang: fetch/4 with": "30,000 processes time out at the same moment and compete for the schedulers; no key waits for another",
    "erlang: put_many/3 of 1,000,000 pairs, atomic": "it is refused, and the error contains the pairs, which the Erlang VM "
    "copies when the process ends; an atomic `put_many/3` takes 32,768 pairs at most",
    "erlang: fold_range/5 of all": "the figure includes the garbage collections of the process that folds five million records",
    "erlang: fold_snapshot/3": "the figure includes the garbage collections of the process that folds five million records",
}


def reason(name) -> str | None:
    """The reason why a row is an exception, None if there is none."""
    return next((words for beginning, words in EXCEPTIONS.items() if name.startswith(beginning)), None)
