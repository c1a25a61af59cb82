"""The faults, and plans of them that follow from a seed.

A fault is a generator: it breaks something, yields how long it stays broken, and repairs it, perhaps in several steps. When it
has ended, everything works again as far as the outside is concerned, and the cluster has to recover by itself.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import threading
import time

import network
import wire
from cluster import MORE_MAX
from guests import LOST_S, OF_GUESTS, seat_or_guest
from hands import damaged_log, damaged_log_that_is_needed, leave, older_copy

HOUR_S = 3_600
CLOCK_SLACK_S = 600
BULK_BYTES = 20_000
BULK_KEYS = 60
# A node answers an expression within this time, or is asked again.
DOOR_S, HANG_ATTEMPTS = 10.0, 5
# How often a node stays frozen, or cut off, for long.
LONG_FREEZE, LONG_CUT = 0.08, 0.25


def any_node(cluster, rng, may_be_guest=False):
    """One of the nodes, often the leader, the node of a process that has a name, the seat of a guest, or a guest."""
    found = seat_or_guest(cluster, rng, may_be_guest)
    leader = cluster.leader() if not found and rng.random() < 0.5 else None
    owner = cluster.owner_node() if rng.random() < 0.3 else None
    is_possible = owner and (may_be_guest or not owner.is_guest)
    return found or leader or (owner if is_possible else None) or rng.choice(cluster.nodes)


def cut_s(rng) -> float:
    """How long a link is cut: sometimes until Erlang closes its connections, and mostly not."""
    return rng.uniform(9, 14) if rng.random() < LONG_CUT else rng.uniform(0.5, 6)


def kill(cluster, rng, node):
    """SIGKILL of one node."""
    node.kill()
    yield rng.uniform(0, 3)
    node.start()


def kill_for_long(cluster, rng, node):
    """SIGKILL of one node, which is away until the names of its processes are free."""
    node.kill()
    yield rng.uniform(*LOST_S)
    node.start()


def members_or_all(cluster, rng) -> list:
    """All members, sometimes with the guests."""
    return cluster.servers if rng.random() < 0.5 else cluster.nodes


def kill_all(cluster, rng, node):
    """SIGKILL of all nodes, or all members, at almost the same time."""
    victims = members_or_all(cluster, rng)
    for each in victims:
        each.kill()
    yield rng.uniform(0, 1)
    for each in rng.sample(victims, len(victims)):
        each.start()
        yield rng.choice((0, 0, 1))


def kill_majority(cluster, rng, node):
    """SIGKILL of more nodes than the cluster can do without; the last one serves no write meanwhile."""
    victims = rng.sample(cluster.nodes, len(cluster.nodes) // 2 + 1)
    for each in victims:
        each.kill()
        yield rng.uniform(0, 0.5)
    yield rng.uniform(0, 4)
    for each in victims:
        each.start()
        yield rng.uniform(0, 1)


def kill_twice(cluster, rng, node):
    """SIGKILL of a node, and again while it recovers."""
    node.kill()
    yield rng.uniform(0, 1)
    node.start()
    yield rng.uniform(0.3, 2.5)
    node.kill()
    node.start()


def freeze(cluster, rng, node):
    """SIGSTOP: the node comes back and believes that no time has passed."""
    node.freeze()
    yield rng.uniform(10, 30) if rng.random() < LONG_FREEZE else rng.uniform(1, 6)
    node.thaw()


def freeze_for_long(cluster, rng, node):
    """SIGSTOP until the names of its processes are others'; they go on and do not know it."""
    node.freeze()
    yield rng.uniform(*LOST_S)
    node.thaw()


def freeze_majority(cluster, rng, node):
    """SIGSTOP of more nodes than the cluster can do without; they come back one after the other."""
    victims = rng.sample(cluster.nodes, len(cluster.nodes) // 2 + 1)
    for each in victims:
        each.freeze()
        yield rng.uniform(0, 0.5)
    yield rng.uniform(0.5, 4)
    for each in victims:
        each.thaw()
        yield rng.uniform(0, 1)


def freeze_briefly(cluster, rng, node):
    """SIGSTOP several times, each too short to be noticed."""
    for _ in range(rng.randint(2, 6)):
        node.freeze()
        yield rng.uniform(0.1, 0.9)
        node.thaw()
        yield rng.uniform(0.05, 0.5)


def hang(cluster, rng, node):
    """The log's process of a node does nothing, while all others of the node go on."""
    with contextlib.suppress(OSError, wire.Closed), node.erlang(DOOR_S) as door:
        door.evaluate("catch sys:suspend(todana_data_dir:server())")
    yield rng.uniform(1, 8)
    for _ in range(HANG_ATTEMPTS):
        with contextlib.suppress(OSError, wire.Closed), node.erlang(DOOR_S) as door:
            door.evaluate("catch sys:resume(todana_data_dir:server())")
            break


def isolate(cluster, rng, node):
    """A node is cut off from all others, or a member from the others only."""
    cluster.isolate(node, guests=rng.random() < 0.5)
    yield cut_s(rng)
    cluster.network.heal()


def isolate_for_long(cluster, rng, node):
    """A node is cut off until the names of its processes are others'."""
    cluster.isolate(node)
    yield rng.uniform(*LOST_S)
    cluster.network.heal()


def isolate_and_kill(cluster, rng, node):
    """The same, and then it is killed while what it could not send before arrives."""
    yield from isolate_for_long(cluster, rng, node)
    yield rng.uniform(0, 1.5)
    node.kill()
    yield rng.uniform(0, 1)
    node.start()


def isolate_all(cluster, rng, node):
    """No node reaches any other; the links come back one after the other."""
    cluster.all_links(network.CUT)
    yield cut_s(rng)
    links = cluster.links()
    for one, other in rng.sample(links, len(links)):
        cluster.network.set(one, other, None)
        yield rng.uniform(0, 0.3)


def take_turns(cluster, rng, node):
    """One node after the other is cut off, so that no majority stays together for long."""
    for _ in range(rng.randint(3, 6)):
        cluster.isolate(rng.choice(cluster.nodes))
        yield rng.uniform(0.3, 2)
        cluster.network.heal()
        yield rng.uniform(0, 0.3)


def mute(cluster, rng, node):
    """Nobody hears a node, which hears all."""
    cluster.isolate(node, into=False, guests=rng.random() < 0.5)
    yield cut_s(rng)
    cluster.network.heal()


def deafen(cluster, rng, node):
    """A node hears nobody, and all hear it."""
    cluster.isolate(node, out=False, guests=rng.random() < 0.5)
    yield cut_s(rng)
    cluster.network.heal()


def cut_link(cluster, rng, node):
    """Two nodes do not reach each other, and all others reach both."""
    cluster.cut(node, rng.choice(cluster.others(node)))
    yield cut_s(rng)
    cluster.network.heal()


def flap(cluster, rng, node):
    """A node is cut off again and again."""
    for _ in range(rng.randint(3, 8)):
        cluster.isolate(node, out=rng.random() < 0.8, into=rng.random() < 0.8)
        yield rng.uniform(0.1, 1.5)
        cluster.network.heal()
        yield rng.uniform(0.1, 1.0)


def delay(cluster, rng, node):
    """All messages between nodes take long, and overtake each other."""
    cluster.all_links(network.Link(delay_s=rng.uniform(0.005, 0.15), jitter_s=rng.uniform(0, 0.05)))
    yield rng.uniform(2, 6)
    cluster.network.heal()


def lose(cluster, rng, node):
    """Packets between nodes are lost."""
    cluster.all_links(network.Link(loss=rng.uniform(0.02, 0.3)))
    yield rng.uniform(2, 6)
    cluster.network.heal()


def slow_disk(cluster, rng, node):
    """Each sync of one node takes long."""
    node.disk.slow_syncs(rng.uniform(0.02, 1.0))
    yield rng.uniform(2, 6)
    node.disk.mend()


def slow_disks(cluster, rng, node):
    """Each sync of all nodes takes long."""
    for each in cluster.nodes:
        each.disk.slow_syncs(rng.uniform(0.02, 0.3))
    yield rng.uniform(2, 5)
    for each in cluster.nodes:
        each.disk.mend()


def full_disk(cluster, rng, node):
    """The disk of one node has no room."""
    node.fill_disk()
    yield rng.uniform(2, 6)
    node.free_disk()


def full_disks(cluster, rng, node):
    """The disks of all nodes have no room."""
    for each in cluster.nodes:
        each.fill_disk()
    yield rng.uniform(2, 5)
    for each in cluster.nodes:
        each.free_disk()


def step_clock(cluster, rng, node):
    """The clock of one node steps, and steps back."""
    offset_s = rng.choice((-24, -1, 1, 24)) * HOUR_S + rng.randint(-60, 60)
    node.set_clock(offset_s)
    with contextlib.suppress(OSError, wire.Closed):  # another fault may hit the node
        assert abs(node.clock_offset() - offset_s) < CLOCK_SLACK_S, "the node does not see the step"
    yield rng.uniform(1, 4)
    node.set_clock(0)


def step_clocks(cluster, rng, node):
    """The clocks of all nodes step, each by another time, and step back."""
    for each in cluster.servers:
        each.set_clock(rng.randint(-24 * HOUR_S, 24 * HOUR_S))
    yield rng.uniform(1, 4)
    for each in cluster.servers:
        each.set_clock(0)


def return_late(cluster, rng, node):
    """A node hears nothing, or is frozen. Meanwhile a day passes on the clocks of the others, which are killed. The first node
    repeats what it has sent."""
    # The time of the log never goes back, so each such fault needs a later one.
    cluster.hours_ahead += rng.randint(25, 30)
    offset_s = cluster.hours_ahead * HOUR_S
    others = cluster.others(node)
    is_frozen = rng.random() < 0.3
    if is_frozen:
        node.freeze()
    else:
        cluster.isolate(node, out=False)
    yield rng.uniform(0, 0.1)
    for other in others:
        other.set_clock(offset_s)
    # An emulator sees a step of the clock when it starts.
    for killed in others:
        killed.kill()
        killed.start()
    for killed in others:
        killed.wait_until_serving()
    yield rng.uniform(0.5, 4)
    if is_frozen:
        node.thaw()
    cluster.network.heal()
    yield rng.uniform(0.5, 2)
    for other in others:
        other.set_clock(0)


def transfer(cluster, rng, node):
    """Leadership is moved by command, several times."""
    for _ in range(rng.randint(1, 4)):
        with contextlib.suppress(OSError):
            rng.choice(cluster.nodes).ask("transfer", rng.choice(cluster.nodes).name)
        yield rng.uniform(0.1, 1)


def restart(cluster, rng, node):
    """All nodes, or all members, are restarted in order, one after the other."""
    restarted = members_or_all(cluster, rng)
    for each in rng.sample(restarted, len(restarted)):
        assert (status := each.stop()) == 0, f"{each.name} ended with {status}:\n{each.log()}"
        each.start()
        each.wait_until_serving()
        yield rng.uniform(0, 1)


def bulk(node, stop):
    """Writes until the end, so that snapshots are needed."""
    number = 0
    with contextlib.suppress(OSError, wire.Closed), wire.Resp(node.address("resp"), 5) as connection:
        while not stop.is_set():
            connection.send(b"".join(wire.encode("SET", f"bulk.{(number + index) % BULK_KEYS}", b"%d" % number + bytes(BULK_BYTES)) for index in range(10)))
            for _ in range(10):
                connection.reply()
            number += 10
            time.sleep(0.01)


@contextlib.contextmanager
def writing(node):
    """Bulk writes at a node."""
    stop = threading.Event()
    thread = threading.Thread(target=bulk, args=(node, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


def install_snapshot(cluster, rng, node):
    """A node is away, cut off or killed, until the others have no log for it any more; it returns under load."""
    is_killed = rng.random() < 0.5
    if is_killed:
        node.kill()
    else:
        cluster.isolate(node)
    with writing(rng.choice(cluster.others(node))):
        yield rng.uniform(2, 4)
        if is_killed:
            node.start()
        cluster.network.heal()
        yield rng.uniform(1, 3)


def load(cluster, rng, node):
    """Much more is written than usual, at any node, and snapshots are taken."""
    with writing(rng.choice(cluster.servers)):
        yield rng.uniform(2, 4)


def replace(cluster, rng, node):
    """A node leaves, and comes back with an empty directory."""
    asked = rng.choice(cluster.others(node))
    if rng.random() < 0.5:
        node.kill()
        yield rng.uniform(0, 1)
    leave(node, asked)
    node.kill()
    yield rng.uniform(0, 1)
    shutil.rmtree(node.directory)
    node.join(asked)
    # One more change of the members is refused while a node is on its way.
    cluster.wait_for_voters()


def grow(cluster, rng, node):
    """More nodes join, and leave again in another order; sometimes one is killed before."""
    joined = []
    for _ in range(rng.randint(1, MORE_MAX)):
        joined.append(cluster.grow(node))
        yield rng.uniform(0, 1)
    for new in rng.sample(joined, len(joined)):
        if rng.random() < 0.3:
            new.kill()
        leave(new, rng.choice(cluster.others(new)))
        cluster.shrink(new)
        yield rng.uniform(0, 1)


FAULTS = (
    kill, kill, kill_for_long, kill_all, kill_majority, kill_twice, freeze, freeze, freeze_for_long, freeze_majority, freeze_briefly,
    hang, hang, isolate, isolate, isolate_for_long, isolate_and_kill, isolate_all, take_turns, mute, deafen, cut_link, flap, delay, lose,
    slow_disk, slow_disks, full_disk, full_disks, step_clock, step_clocks, return_late, transfer, restart, install_snapshot, install_snapshot,
    load, replace, grow, damaged_log, damaged_log_that_is_needed, older_copy, *OF_GUESTS,
)  # fmt: skip
# Those that make sense for a guest, which has no records and no votes.
AT_GUESTS = {
    kill, kill_for_long, kill_twice, freeze, freeze_for_long, freeze_briefly, isolate, isolate_for_long, isolate_and_kill, mute, deafen,
    cut_link, flap, step_clock, delay, lose, transfer, load, *OF_GUESTS,
}  # fmt: skip
# Those that may come together with one of the others that hits the same node: a majority is never concerned.
COMPANIONS = (delay, lose, slow_disk, step_clock, transfer, load)
PARTNERS = (kill, kill_for_long, kill_twice, freeze, freeze_briefly, hang, isolate, mute, deafen, flap, install_snapshot, full_disk)
NAMES = {fault.__name__: fault for fault in FAULTS}
TWO_AT_ONCE = 0.2


def plan(seed, count, kinds=None) -> list:
    """Names of faults, one or two for each step. Each kind comes once before any comes again."""
    rng = random.Random(f"{seed} plan")
    names, found = [], []
    while len(found) < count:
        if not names:
            names = [fault.__name__ for fault in FAULTS if kinds is None or fault.__name__ in kinds]
            rng.shuffle(names)
        name = names.pop()
        if rng.random() < TWO_AT_ONCE and NAMES[name] in PARTNERS and kinds is None:
            found.append((name, rng.choice(COMPANIONS).__name__))
        else:
            found.append((name,))
    return found


def carry_out(cluster, names, seed):
    """Runs the faults of one step at the same time."""
    rng = random.Random(seed)
    node = any_node(cluster, rng, may_be_guest=all(NAMES[name] in AT_GUESTS for name in names))
    failures = []

    def one(name, own):
        try:
            for pause_s in NAMES[name](cluster, own, node):
                time.sleep(pause_s)
        except BaseException as failure:  # for the caller
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(name, random.Random(f"{seed} {name}"))) for name in names[1:]]
    for thread in threads:
        thread.start()
    one(names[0], rng)
    for thread in threads:
        thread.join()
    repair(cluster)
    if failures:
        raise failures[0]
    return node


def repair(cluster):
    """Whatever a fault has left is put right."""
    cluster.network.heal()
    for node in cluster.servers:
        if node.is_stopped:
            node.signal(signal.SIGCONT)
            node.is_stopped = False
        node.disk.mend()
        node.free_disk()
        if cluster.has_clock:
            node.set_clock(0)
