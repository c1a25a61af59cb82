"""What a person does to the directory of a member, and then about it.

A log is damaged, or a directory is replaced by an older copy of itself. The node starts and has everything, or it ends with a
sentence for a person; then the commands of this sentence follow, and nothing else. What the clients saw is checked as
after each other fault.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time

import stores

CHANGE_TIMEOUT_S = 60
# A start serves, or ends, within this time.
START_TIMEOUT_S = 90
# What a member confirmed longer ago than this is noted by itself and by the others, also if it is killed (docs/cluster.md).
NOTED_S = 3.0
LOGS = (".wal", ".segment")
SNAPSHOTS = "snapshots"
ADVICE = re.compile(r"`bin/todana cluster leave(?: (?P<node>\S+))?` on (?:another|one of them)")
EMPTY = "with an empty directory"


class NoAdvice(AssertionError):
    """A start was refused in words that do not say what to do."""


def leave(node, asked):
    """Has a node removed. The answer may be lost, so the question is repeated until there is nothing to do."""
    deadline = time.monotonic() + CHANGE_TIMEOUT_S
    while (answer := ask_to_leave(node, asked)) != ("ok", True) and "not a member" not in str(answer[1]):
        assert time.monotonic() < deadline, f"leave: {answer}"
        time.sleep(0.3)


def ask_to_leave(node, asked):
    """The answer to one question; the asked node may be starting."""
    try:
        return asked.ask("leave", node.name)
    except OSError as error:
        return "error", str(error)


def outcome(node) -> str:
    """How a start ended: "" if the node serves, else the sentence with which the process ended."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if not node.is_alive():
            node.process.stop()
            sentences = [line for line in node.process.lines if line.startswith("todana: ")]
            return sentences[-1] if sentences else f"no sentence:\n{node.log()}"
        if isinstance(node.look(), int):
            return ""
        time.sleep(0.05)
    raise NoAdvice(f"{node.name} neither serves nor ends:\n{node.log()}")


def follow(cluster, rng, node, sentence):
    """Carries out what the sentence says."""
    found = ADVICE.search(sentence)
    if not found or found["node"] not in (None, node.name) or EMPTY not in sentence:
        raise NoAdvice(sentence)
    asked = rng.choice(cluster.others(node))
    leave(node, asked)
    shutil.rmtree(node.directory)
    node.join(asked)


def conclude(cluster, rng, node, what):
    """Waits for the end of a start, does what it says, and remarks both."""
    sentence = outcome(node)
    cluster.remarks.append(f"{what}: {sentence or 'serves'}")
    if sentence:
        follow(cluster, rng, node, sentence)


def log_sizes(node) -> dict:
    """The files of the log, the snapshots among them, and how long they are."""
    found = {}
    for path in (node.directory / "always").rglob("*"):
        # A running node deletes files meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if path.suffix in LOGS or (SNAPSHOTS in path.parts and path.is_file()):
                # Without the room for records to come.
                found[path] = len(path.read_bytes().rstrip(b"\0"))
    return found


def damage_log(rng, sizes) -> str:
    """Inverts a bit of a file, or cuts it, within these sizes; returns what was done."""
    found = sorted(path for path in sizes if path.exists() and min(sizes[path], path.stat().st_size) > 0)
    if not found:
        return "nothing"
    # The newest file of the log as often as all others together.
    path = max(found, key=lambda each: (each.suffix == ".wal", each.name)) if rng.random() < 0.5 else rng.choice(found)
    size = path.stat().st_size
    offset = rng.randrange(min(sizes[path], size))
    if rng.random() < 0.5:
        os.truncate(path, offset)
        return f"{path.name} of {size} B cut to {offset}"
    bit = rng.randrange(8)
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))
    return f"{path.name} of {size} B, bit {bit} of {offset}"


def damaged_log(cluster, rng, node):
    """A node is killed, and its log damaged, while the others go on."""
    node.kill()
    what = damage_log(rng, log_sizes(node))
    yield rng.uniform(0, 2)
    node.start()
    conclude(cluster, rng, node, what)


def damaged_log_that_is_needed(cluster, rng, node):
    """The log of one of the two members that have the latest writes is damaged, and it starts with one that does not have them,
    while the other one is down."""
    away, other = rng.sample(cluster.others(node), 2)
    away.kill()
    yield rng.uniform(1, 3)
    # The end of a log that was written a moment before may be torn, for all that a node knows which nobody answers.
    sizes = log_sizes(node)
    yield NOTED_S
    node.kill()
    other.kill()
    what = damage_log(rng, sizes)
    for each in rng.sample([away, node], 2):
        each.start()
        yield rng.choice((0, 0, 2))
    # A node that needs the records of the one that is down waits for it.
    if rng.random() < 0.5:
        yield rng.uniform(3, 8)
        other.start()
        conclude(cluster, rng, node, what)
    else:
        sentence = outcome(node)
        cluster.remarks.append(f"{what}: {sentence or 'serves'}")
        other.start()
        if sentence:
            follow(cluster, rng, node, sentence)


def older_copy(cluster, rng, node):
    """A directory is replaced by a copy of an earlier moment, while the others go on, or while all are down."""
    node.kill()
    copy = node.directory.with_name("copy")
    stores.copy_directory(node.directory, copy)
    node.start()
    node.wait_until_serving()
    yield NOTED_S + rng.uniform(0, 4)
    down = [node, *(cluster.others(node) if rng.random() < 0.5 else [])]
    for each in down:
        each.kill()
    shutil.rmtree(node.directory)
    copy.rename(node.directory)
    for each in rng.sample(down, len(down)):
        each.start()
        yield rng.choice((0, 0, 2))
    conclude(cluster, rng, node, f"a copy, {len(down)} started")
