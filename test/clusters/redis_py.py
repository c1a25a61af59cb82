"""Writes by redis-py's RedisCluster. See drive.py for what a program does."""

import json
import sys
import threading
import time

from redis.cluster import ClusterNode, RedisCluster

WORKERS = 2
PAUSE_S = 0.001
AFTER_FAILURE_S = 0.01


class Writers:
    """Threads that share a client."""

    def __init__(self, client, prefix):
        self.client, self.prefix = client, prefix
        self.lock = threading.Lock()
        self.errors = {}
        self.workers = [{"acknowledged": 0, "counted": 0, "last": time.monotonic(), "longest": 0.0} for _ in range(WORKERS)]
        for at in range(WORKERS):
            threading.Thread(target=self._write, args=(at,), daemon=True).start()

    def _attempt(self, at, name, call, *arguments):
        try:
            call(*arguments)
        except Exception as error:  # pylint: disable=broad-exception-caught
            text = f"{type(error).__name__}: {error}"
            with self.lock:
                self.errors[text] = self.errors.get(text, 0) + 1
            time.sleep(AFTER_FAILURE_S)
            return False
        with self.lock:
            worker, now = self.workers[at], time.monotonic()
            worker["longest"] = max(worker["longest"], now - worker["last"])
            worker["last"] = now
            worker[name] += 1
        return True

    def _write(self, at):
        number = 0
        while True:
            while not self._attempt(at, "acknowledged", self.client.set, f"{self.prefix}:{at}:{number}", number):
                pass
            self._attempt(at, "counted", self.client.incr, f"{self.prefix}:{at}:count")
            number += 1
            time.sleep(PAUSE_S)

    def report(self):
        """Prints the counts, and the longest gap since the last report."""
        with self.lock:
            now = time.monotonic()
            longest = max(max(worker["longest"], now - worker["last"]) for worker in self.workers)
            for worker in self.workers:
                worker |= {"longest": 0.0, "last": now}
            found = {name: [worker[name] for worker in self.workers] for name in ("acknowledged", "counted")}
            print(json.dumps(found | {"longest_ms": round(longest * 1000), "errors": self.errors}), flush=True)


def main():
    """Reports for each line of the input, and at its end."""
    _, _, addresses, prefix = sys.argv
    nodes = [ClusterNode(*address.split(":")) for address in addresses.split(",")]
    writers = Writers(RedisCluster(startup_nodes=nodes), prefix)
    for _ in sys.stdin:
        writers.report()
    writers.report()


main()
