"""A row of the suite: a request, and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Databases by number: 0 many records; 1 many, ordered; 2 many that expire; 3 full, evicting; 4 and 5 for the records of a row;
# 6 ordered by numbers.
PLAIN, ORDERED, EXPIRING, EVICTING, SCRATCH, SPARE, DECIMAL = range(7)


@dataclass(frozen=True)
class Sizes:
    """Amounts: the worst that the default limits allow, or less for a trial."""

    records: int
    value_bytes: int  # value_bytes_max
    medium_bytes: int  # a value that is changed many times
    long_key_bytes: int
    keys: int  # of a command: arguments_max
    pairs: int
    commands: int  # of a transaction
    bulk: int  # inputs of a procedure
    connections: int
    waiters: int
    key_characters: int  # of a key that is a list of Erlang
    shard_records: int  # in a table of one shard
    evicting_bytes: int
    queued_bytes: int  # by each of QUEUING clients

    def to_erlang(self) -> str:
        """The amounts as a term for stalls.erl."""
        fields = ("records", "value_bytes", "bulk", "waiters", "key_characters", "shard_records")
        return "#{many => %d, %s}" % (self.keys, ", ".join(f"{name} => {getattr(self, name)}" for name in fields))


FULL = Sizes(
    records=5_000_000, value_bytes=64 << 20, medium_bytes=8 << 20, long_key_bytes=64 << 10, keys=65_000, pairs=32_767,
    commands=65_000, bulk=1_000_000, connections=2_000, waiters=30_000, key_characters=10_000_000, shard_records=1_000_000,
    evicting_bytes=300 << 20, queued_bytes=120 << 20,
)  # fmt: skip
QUICK = Sizes(
    records=200_000, value_bytes=8 << 20, medium_bytes=1 << 20, long_key_bytes=64 << 10, keys=10_000, pairs=10_000,
    commands=10_000, bulk=50_000, connections=100, waiters=2_000, key_characters=1_000_000, shard_records=50_000,
    evicting_bytes=12 << 20, queued_bytes=8 << 20,
)  # fmt: skip
TINY = Sizes(
    records=1_000, value_bytes=1 << 16, medium_bytes=1 << 12, long_key_bytes=1 << 10, keys=100, pairs=100, commands=100, bulk=100,
    connections=5, waiters=20, key_characters=100_000, shard_records=100, evicting_bytes=1 << 20, queued_bytes=1 << 16,
)  # fmt: skip
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def key(number) -> bytes:
    """A key of the large databases; the first has number 1."""
    return b"key:%012d" % number


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    protocol: str  # "resp", "memcached", "kyoto", "erlang" or "none"
    label: str
    covers: tuple[str, ...] = ()
    # The bytes of one or several requests; for Erlang, the name of a call of stalls.erl.
    request: Callable[[], bytes] | str = b""
    # Requests before each round that are not measured.
    prepare: Callable[[], bytes] | None = None
    database: int = PLAIN
    # The record that the probes read.
    key: bytes = key(1)
    # Databases that must be full before, and those that are no longer full afterwards.
    needs: tuple[int, ...] = (PLAIN,)
    spoils: tuple[int, ...] = ()
    # Runs once per round; otherwise as often as fits into its time.
    is_once: bool = False
    # A new connection for each request.
    is_fresh: bool = False
    # The measurement continues for this long after the answer.
    linger_s: float = 0.0
    # A function of the host that runs instead of a request and does its own measuring.
    action: Callable | None = None
    probe: str = "get"
    # The cost is independent of arguments and stored records; the page lists these rows apart.
    is_constant: bool = False

    @property
    def name(self) -> str:
        """Protocol and label, unique among the rows."""
        return f"{self.protocol}: {self.label}"
