"""How raw results are written as JSON: one round per line.

A list or an object of scalars takes one line, and so does each element of a list named `rounds` or `history`. Everything else has one
item per line. `bench/run` and `bench/compare` write their files with it; any JSON parser reads them.
"""

from __future__ import annotations

import json

# Lists whose elements take one line each.
LISTS = ("rounds", "history")


def dumps(value) -> str:
    """The text of a file of results, with a newline at its end."""
    return _text(value, 0) + "\n"


def _text(value, depth, are_rounds=False) -> str:
    if _is_flat(value):
        return json.dumps(value)
    inside = " " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {_text(each, depth + 1, name in LISTS)}" for name, each in value.items()]
    else:
        items = [json.dumps(each) if are_rounds else _text(each, depth + 1) for each in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n" + ",\n".join(inside + item for item in items) + f"\n{' ' * depth}{last}"


def _is_flat(value) -> bool:
    """Whether a value contains no list and no object other than empty ones."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(each, (dict, list)) and each for each in inside)
