"""The faults of guests and of their seats, the members that execute what guests are asked for.

Faults of any node hit them, too (plan.py): a guest where that makes sense, and a seat often.
"""

from __future__ import annotations

# Longer than a guest waits for a seat that says nothing; longer than it takes until the names of a node are free, mostly also if
# it has led: the next leader counts from its election.
SILENT_S, LOST_S = (2.5, 5), (12, 16)
# How often a seat or a guest is the node of a fault of any node.
SEAT, GUEST = 0.2, 0.25
# Which directions of a link are cut: what the first node sends, and what it hears.
WAYS = ((True, True), (True, True), (True, False), (False, True))


def seat_or_guest(cluster, rng, may_be_guest):
    """The seat of a guest, or a guest, or mostly None."""
    chance = rng.random()
    if not cluster.guests or chance > SEAT + GUEST:
        return None
    guest = rng.choice(cluster.guests)
    if chance < SEAT:
        return guest.seat()
    return guest if may_be_guest else None


def guest_and_seat(cluster, rng, node):
    """A guest, this node if it is one, and its seat, or any member if it has none."""
    guest = node if node.is_guest else rng.choice(cluster.guests)
    return guest, guest.seat() or rng.choice(cluster.nodes)


def cut_from_seat(cluster, rng, node):
    """A guest does not reach its seat, or is not heard by it; all others reach both."""
    guest, seat = guest_and_seat(cluster, rng, node)
    cluster.cut(guest, seat, *rng.choice(WAYS))
    yield rng.uniform(9, 14) if rng.random() < 0.25 else rng.uniform(0.5, 6)
    cluster.network.heal()


def change_seats(cluster, rng, node):
    """A guest loses one seat after the other, and what each has executed meanwhile arrives later."""
    for _ in range(rng.randint(2, 4)):
        guest, seat = guest_and_seat(cluster, rng, node)
        cluster.cut(guest, seat, *rng.choice(WAYS))
        yield rng.uniform(*SILENT_S)
        cluster.network.heal()
        yield rng.uniform(0, 0.5)


def freeze_seat(cluster, rng, node):
    """SIGSTOP of the seat of a guest, which has another one when the first executes what it was asked for."""
    _, seat = guest_and_seat(cluster, rng, node)
    seat.freeze()
    yield rng.uniform(*SILENT_S)
    seat.thaw()


def seat_behind(cluster, rng, node):
    """The guests lose their seat, and reach only a member that is behind."""
    _, seat = guest_and_seat(cluster, rng, node)
    behind, *others = rng.sample(cluster.others(seat), len(cluster.others(seat)))
    # Its leader is lost after some time, and then it is no seat.
    cluster.isolate(behind, guests=False)
    yield rng.uniform(0.1, 0.8)
    for guest in cluster.guests:
        for other in others:
            cluster.cut(guest, other)
    seat.kill()
    yield rng.uniform(0.5, 2)
    cluster.network.heal()
    seat.start()


def isolate_guest(cluster, rng, node):
    """A guest is cut off from all nodes, until the names of its processes are others'."""
    guest, _ = guest_and_seat(cluster, rng, node)
    cluster.isolate(guest)
    yield rng.uniform(*LOST_S)
    cluster.network.heal()


def stop_guest(cluster, rng, node):
    """A guest is stopped in order, and returns."""
    guest, _ = guest_and_seat(cluster, rng, node)
    yield from stopped(guest, rng)


def stop_seat(cluster, rng, node):
    """The seat of a guest is stopped in order, and returns."""
    _, seat = guest_and_seat(cluster, rng, node)
    yield from stopped(seat, rng)


def stopped(node, rng):
    """A node is stopped in order, and returns."""
    assert (status := node.stop()) == 0, f"{node.name} ended with {status}:\n{node.log()}"
    yield rng.uniform(0, 4)
    node.start()


OF_GUESTS = (change_seats, cut_from_seat, freeze_seat, isolate_guest, seat_behind, stop_guest, stop_seat)
