"""The published figures of the five experiments, the only ones in the report that bench/run did not measure.

They come from the machines of their authors: compare shapes with them, not speeds.
"""

from __future__ import annotations

YEARS = {"e1": 2014, "e2": 2010, "e3": 2014, "e4": 2017, "e5": 2014}
# Author, title and date. The titles are translated from Japanese, except that of E4.
PUBLICATIONS = {
    "e1": "sile, How to make the reads of a process like a key-value store scale with the cores in Erlang, Qiita, 2014-11-02, "
    "https://qiita.com/sile/items/f3a2d2bea0135847523d",
    "e2": "higepon, Concerns about the performance of Erlang servers that use gen_server, and their solution, 2010-02-03, "
    "https://higepon.hatenablog.com/entry/20100203/1265186020",
    "e3": "sile, Notes on measurements of the performance of distributed Erlang, Qiita, 2014-12-24, "
    "https://qiita.com/sile/items/1852425f0f70e790ebea",
    "e4": "tkyshm, erlang-bench, 2017, https://github.com/tkyshm/erlang-bench",
    # By its subject and year: the copy that was read had no figures.
    "e5": "probably shakemid, Support for Solaris event ports in Kyoto Tycoon, 2014-08-30, "
    "https://shakemid.hatenablog.com/entry/20140830/1409370223",
}
# Where the figures come from.
SETTINGS = {
    "e1": "OTP 17.3, 16 cores / 32 threads",
    "e2": "a distributed store over a skip graph",
    "e3": "OTP 17.4, 10 hosts, median of 5 runs",
    "e4": "OTP 19, 2 cores / 4 threads",
    "e5": "Kyoto Tycoon 0.9.56, 4 cores / 8 threads",
}

# Reads per second by clients, 1,000 entries under integer keys.
E1_READS = {
    "ets": {
        1: 3_107_163, 2: 6_203_665, 4: 12_332_879, 8: 24_465_091, 16: 47_723_813, 32: 61_272_132, 64: 54_838_191,
        128: 57_763_401,
    },
    "dict": {
        1: 433_303, 2: 404_905, 4: 518_766, 8: 602_455, 16: 614_692, 32: 619_699, 64: 626_231, 128: 638_042,
    },
}  # fmt: skip

# One process, its own dict or ETS: millions of reads per second.
E1_SERIAL_MILLIONS = {"dict": 2.33, "ets": 3.38}

# 10,000 inserts, about 111,000 updates of one status: seconds in the callers, of which the handler took 0.79.
E2_CALLER_SECONDS = 7.66
E2_CALLS = 111_000
# "More than": how many times faster the status was in ETS than behind a call.
E2_ETS_SPEEDUP = 10
# What a dirty read costs, in reads of ETS.
E2_DIRTY_READ_IN_ETS_READS = 2

E3_NODES = (0, 1, 4, 16, 64, 256)
# Microseconds per operation by number of nodes; seconds for add_node.
E3_OPERATIONS = {
    "add_node": (None, 0.637, 0.673, 0.691, 0.705, 0.690),
    "echo_pid": (0.758, 8.020, 2.021, 1.429, 2.345, 2.634),
    "echo_name": (0.905, 8.055, 2.116, 1.672, 2.340, 2.767),
    "rpc": (3.269, 40.105, 11.518, 7.160, 11.667, 11.320),
    "monitor": (19.450, 9.074, 8.598, 4.985, 4.839, 5.053),
    "global_register": (55.63, 54.05, 1704.57, 2449.36, 7348.40, 25970.31),
    "global_unregister": (51.83, 51.69, 1593.71, 2608.14, 6665.51, 27585.72),
    "global_whereis": (0.37, 0.38, 0.44, 0.47, 0.57, 0.81),
    "pg2_create": (33.15, 749.85, 990.30, 1725.01, 5260.28, 21897.22),
    "pg2_join": (36.53, 750.02, 1140.77, 1721.50, 5295.05, 21938.38),
    "pg2_pick": (75.43, 77.39, 78.66, 78.39, 79.42, 79.31),
}
# Microseconds per operation by schedulers online of the one server: nine clients.
E3_SCALE_UP = {
    "echo_many": {1: 10.147, 2: 3.440, 4: 1.864, 8: 1.663, 16: 1.915, 32: 1.993},
    "rpc_one_process": {1: 39.781, 2: 21.818, 4: 21.186, 8: 21.388, 16: 20.740, 32: 22.576},
}

# Requests per second by (mailbox, path) and messages.
E4_PER_SECOND = {
    ("on_heap", "direct"): {50_000: 228_310, 100_000: 188_324, 200_000: 235_849, 300_000: 240_000, 500_000: 2_293},
    ("off_heap", "direct"): {50_000: 214_593, 100_000: 203_252, 200_000: 196_078, 300_000: 174_825, 500_000: 173_491},
    ("on_heap", "timer"): {
        1_000: 4_878, 10_000: 43_478, 50_000: 148_810, 100_000: 212_314, 200_000: 274_725, 300_000: 301_508,
        500_000: 323_834,
    },
    ("off_heap", "timer"): {
        1_000: 4_854, 10_000: 40_650, 50_000: 157_729, 100_000: 225_734, 200_000: 298_063, 300_000: 334_821,
        500_000: 371_747,
    },
}  # fmt: skip

# Seconds of a phase of 100,000 requests: ten clients, one HTTP request for each record.
E5_SECONDS = {
    "Solaris, select": {"set": 12.695, "get": 12.487, "delete": 12.553},
    "Solaris, event ports": {"set": 10.416, "get": 10.207, "delete": 10.040},
    "Linux, select": {"set": 5.347, "get": 4.858, "delete": 4.684},
    "Linux, epoll": {"set": 4.160, "get": 4.075, "delete": 3.446},
}
# Over all phases; which build is not said.
E5_FUTEX_PER_REQUEST = 2.0
