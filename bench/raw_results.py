"""Files of raw results: JSON with one round per line, compressed if the text is long.

A list or an object of scalars takes one line, and so does each element of a list named `rounds` or `history`. Everything else has one
item per line. `bench/run` and `bench/compare` write their files with it; any JSON parser reads them. The results of a part are in
`PART.json`, or in `PART.json.gz` if the text has more than 256 KiB, which is the most that `tools/tidy` allows for a file of results.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

TEXT_BYTES_MAX = 256 << 10
SUFFIXES = (".json", ".json.gz")

# Lists whose elements take one line each.
LISTS = ("rounds", "history")


def write(path: Path, value) -> Path:
    """Writes the results of a part to this path, which ends in `.json`, or with `.gz` behind it. Returns the path of the file."""
    text = dumps(value).encode()
    plain, compressed = path, path.with_name(f"{path.name}.gz")
    found, other = (plain, compressed) if len(text) <= TEXT_BYTES_MAX else (compressed, plain)
    # The same results make the same file: no time stands in it.
    found.write_bytes(text if found is plain else gzip.compress(text, mtime=0))
    other.unlink(missing_ok=True)
    return found


def text(path: Path) -> str:
    """The text of a file of results."""
    contents = path.read_bytes()
    return (gzip.decompress(contents) if path.suffix == ".gz" else contents).decode()


def read(path: Path):
    """The results in a file."""
    return json.loads(text(path))


def path(directory: Path, part: str) -> Path | None:
    """The file with the results of a part in a directory, `None` if there is none."""
    return next((each for suffix in SUFFIXES if (each := directory / f"{part}{suffix}").exists()), None)


def paths(directory: Path) -> dict[str, Path]:
    """The files of results in a directory, by their parts."""
    return {part_of(each): each for suffix in SUFFIXES for each in directory.glob(f"*{suffix}")}


def part_of(path: Path) -> str:
    """The part whose results are in a file."""
    return path.name.partition(".json")[0]


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
