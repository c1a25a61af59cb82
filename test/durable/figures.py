"""What each test has really done, as lines of JSON: rounds, cuts, flipped bits, failed calls, acknowledged writes.

Every test that counts prints its line. With `--results FILE` the lines are appended to a file, each with the commit and the
machine, so that long runs can be made in parts. `tools/python test/durable/figures.py FILE...` prints a table of such files.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Beside these, all whole numbers of a test are added up.
LABELS = ("suite", "case", "seed", "outcome", "date", "commit", "machine")


def machine_facts() -> dict:
    """The machine and the commit, by the same rules as the benchmarks' results."""
    sys.path.append(str(ROOT / "bench"))
    import machine

    facts = machine.facts([], {})
    parts = [facts["cpu"], f"{facts['cores']} cores", f"{facts['memory_gib']} GiB", facts["kernel"], facts["system"]]
    return {"commit": facts["versions"]["todana"], "machine": ", ".join(parts)}


class Figures(dict):
    """The figures of one test."""

    def __init__(self, **figures):
        super().__init__(figures)
        self.by_client = {}

    def add(self, name, count=1):
        """Adds to a figure."""
        self[name] = self.get(name, 0) + count

    def settle(self, store, writers):
        """Compares the store with every ledger, and counts the acknowledged writes that were found."""
        found = store.read([place for writer in writers for place in writer.places()])
        for writer in writers:
            places = set(writer.places())
            acknowledged = writer.ledger.acknowledged
            surplus = writer.ledger.settle({place: value for place, value in found.items() if place in places})
            self.add("acknowledged", acknowledged)
            self.add("unacknowledged but found", surplus)
            self.by_client[writer.name] = self.by_client.get(writer.name, 0) + acknowledged

    def assert_all_wrote(self, writers):
        """Fails if a client has no acknowledged write: then nothing was proved for its protocol."""
        idle = [writer.name for writer in writers if not self.by_client.get(writer.name)]
        assert not idle, f"no write of these clients was acknowledged: {', '.join(idle)}"


class Collector:
    """Prints the figures of each test, and keeps them if there is a file for them."""

    def __init__(self, path):
        self.path = Path(path) if path else None
        self._facts = None
        self.lines = []

    def report(self, suite, case, outcome, figures):
        """One test has ended."""
        line = {"suite": suite, "case": case, "outcome": outcome, **figures}
        print("\nfigures " + json.dumps(line), flush=True)
        self.lines.append(line)
        if self.path:
            self._facts = self._facts or machine_facts()
            line |= {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"), **self._facts}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def table(lines) -> str:
    """The figures of many tests: a row for each kind of test, with sums."""
    groups = {}
    for line in lines:
        model = f", {line['disk model']} disk" if "disk model" in line else ""
        groups.setdefault((line["suite"], line["case"] + model), []).append(line)
    rows = ["| suite | case | runs | passed | figures | seeds |", "|---|---|---|---|---|---|"]
    for (suite, case), runs in sorted(groups.items()):
        sums = Counter()
        for run in runs:
            sums.update({name: value for name, value in run.items() if type(value) is int and name not in LABELS})
        counts = ", ".join(f"{count:,} {name}" for name, count in sums.items())
        seeds = ", ".join(str(run.get("seed", "")) for run in runs)
        passed = sum(run["outcome"] == "passed" for run in runs)
        rows.append(f"| {suite} | {case} | {len(runs)} | {passed} | {counts} | {seeds} |")
    return "\n".join(rows)


def main(paths):
    """Prints the table of files of results, with the machines and commits."""
    lines = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    for name in ("date", "commit", "machine"):
        print(f"{name}: {', '.join(sorted({line[name].split()[0] if name == 'date' else line[name] for line in lines}))}\n")
    print(table(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
