"""What the processes of a cluster use for a run: CPU time, bytes written to the disk, and bytes sent to each other."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import servers

PROCESS = re.compile(r"\bpid=(\d+)")
SENT = re.compile(r"\bbytes_sent:(\d+)")


class Usage:
    """A context. The first of the processes is the one that the clients use."""

    def __init__(self, pids):
        self.pids = list(pids)
        self._before = self._after = None

    def __enter__(self):
        self._before = self._read()
        return self

    def __exit__(self, *_):
        self._after = self._read()

    def _read(self):
        return sent_bytes(self.pids), [written_bytes(pid) for pid in self.pids], [servers.cpu_s(pid) for pid in self.pids]

    def report(self, requests) -> dict:
        """Figures of a request: CPU microseconds of each process and of all, bytes of all."""
        (sent_before, written_before, cpu_before), (sent, written, cpu) = self._before, self._after
        requests = max(1, requests)
        by_node = [round((after - before) / requests * 1e6, 3) for before, after in zip(cpu_before, cpu)]
        report = {"cpu_us_by_node": by_node, "cpu_us_of_all_nodes": round(sum(by_node), 3)}
        if None not in written_before + written:
            report["written_bytes_per_request"] = round((sum(written) - sum(written_before)) / requests, 1)
        if None not in (sent_before, sent):
            report["sent_bytes_per_request"] = round((sent - sent_before) / requests, 1)
        return report


def written_bytes(pid) -> int | None:
    """Bytes that a process caused to be written to a disk: the system counts whole pages."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))


def sent_bytes(pids) -> int | None:
    """Bytes that these processes have sent to each other over connections that are open; None without the program `ss`."""
    if not shutil.which("ss"):
        return None
    lines = subprocess.run(["ss", "-tinpOH", "state", "established"], capture_output=True, text=True, check=True).stdout.splitlines()
    ends, found = set(), []
    for line in lines:
        process, sent = PROCESS.search(line), SENT.search(line)
        words = line.split()
        if process and int(process[1]) in pids and len(words) > 3:
            own, other = words[2:4]
            ends.add(own)
            found.append((other, int(sent[1]) if sent else 0))
    return sum(sent for other, sent in found if other in ends)
