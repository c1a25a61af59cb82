"""Many faults, in runs of a few each. Each run has a cluster and a process of its own, and its seed follows from that of all.

    tools/python test/faults/campaign.py --faults 1000 --results FILE [--seed N] [--parallel N]

A line of JSON is appended to FILE for each run, once it has been checked: what its faults have in common, and the list of its faults.
A campaign that was stopped goes on where it was: runs whose lines are in FILE are not repeated. Runs that fail are kept in _build/faults. The status is 1 if one failed.
`--kinds NAME...` takes only these faults, and `--crews NAME...` only these clients; `--one RUN` carries out one run in this process; `--summary FILE...` prints a table of such files.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "durable"), str(HERE.parent / "clients")]

import figures  # noqa: E402 - their directories are known now
import network  # noqa: E402
import plan as plans  # noqa: E402
import run as runs  # noqa: E402

STEPS = 8
# Sums that need more than one word.
SUMS = {
    "sessions_ended": "sessions ended", "noticed_in_time": "owners informed of their loss in time", "noticed_late": "too late",
    "halves": "groups of which a read has seen a part of a step",
}  # fmt: skip
# A run ends within this time, or it hangs.
RUN_TIMEOUT_S = 1_800


def seed_of_run(seed, number) -> int:
    """The seed of a run."""
    return random.Random(f"{seed} run {number}").randrange(1 << 32)


def carry_out_one(seed, number, steps, kinds=None, crews=runs.CREWS) -> list[dict]:
    """A run in this process; returns a line for each fault."""
    own = seed_of_run(seed, number)
    with contextlib.suppress(network.NotPossible):
        network.enter()
    directory = tempfile.mkdtemp(prefix="todana-faults-", dir=network.SHARED if network.SHARED.is_dir() else None)
    faults = []
    common = {"suite": "cluster", "campaign": seed, "run": number, "seed": own}
    try:
        ended = runs.carry_out(directory, own, plans.plan(own, steps, kinds), on_step=faults.append, crews=crews)
        verdict = {name: ended.verdict[name] for name in ("operations", "parts", "unknown", "failed", "digest", "guests")} | ended.verdict["names"]
        return [{**common, **fault, "verdict": "ok", "of_run": verdict} for fault in faults]
    except Exception as why:
        at_fault = {"kind": "during the next or at the end", "number": len(faults)}
        sentence = f"{type(why).__name__}: {why}"[:2_000]
        return [{**common, **fault, "verdict": "not checked"} for fault in faults] + [{**common, **at_fault, "verdict": sentence}]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def in_process(seed, number, steps, kinds=None, crews=runs.CREWS) -> list[dict]:
    """A run in a process of its own."""
    command = [sys.executable, __file__, "--one", number, "--seed", seed, "--steps", steps, *(["--kinds", *kinds] if kinds else []), "--crews", *crews]
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, json.JSONDecodeError) as why:
        output = getattr(why, "stdout", None) or (done.stderr if "done" in locals() else "")
        return [{"suite": "cluster", "campaign": seed, "run": number, "seed": seed_of_run(seed, number), "verdict": f"{why}: {output}"[-2_000:]}]


def packed(faults) -> str:
    """The line of a run: the facts that all its faults have, and the others of each."""
    shared = {name: value for name, value in faults[0].items() if all(fault.get(name) == value for fault in faults)}
    own = [{name: value for name, value in fault.items() if name not in shared} for fault in faults]
    return json.dumps({**shared, "faults": own}) + "\n"


def read(path) -> list[dict]:
    """The faults in a file, with all their facts; a line that was cut off at its end is left out."""
    found = []
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                run = json.loads(line)
                found += [{**run, **fault} for fault in run.pop("faults")]
    return found


def campaign(path, seed, count, parallel, steps=STEPS, kinds=None, crews=runs.CREWS) -> int:
    """All runs that are missing; returns how many have failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    runs.build_checker()
    facts = figures.machine_facts()
    known = {line["run"] for line in read(path) if line["campaign"] == seed}
    wanted = [number for number in range((count + steps - 1) // steps) if number not in known]
    failed = 0
    print(f"seed {seed}: {len(known)} runs are done, {len(wanted)} to do", flush=True)
    with ThreadPoolExecutor(parallel) as pool, path.open("a") as file:
        for lines in pool.map(lambda number: in_process(seed, number, steps, kinds, crews), wanted):
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")
            file.write(packed([line | {"date": date, **facts} for line in lines]))
            file.flush()
            bad = [line for line in lines if line["verdict"] not in ("ok", "not checked")]
            failed += bool(bad)
            print(f"run {lines[0]['run']}: {len(lines)} faults, {bad[0]['verdict'] if bad else 'ok'}", flush=True)
    return failed


def summary(paths) -> str:
    """A row for each kind of fault, with medians and the longest times, and the sums."""
    lines = [line for path in paths for line in read(Path(path))]
    def middle_and_last(found, name):
        numbers = sorted(line[name] for line in found if name in line) or [0]
        return f"{numbers[len(numbers) // 2]}, {numbers[-1]}"

    rows = ["| fault | times | ok | broken for s | then whole again after s | no write acknowledged for s |", "|---|---|---|---|---|---|"]
    by_kind = {}
    for line in lines:
        by_kind.setdefault(line.get("kind", "?"), []).append(line)
    for kind, found in sorted(by_kind.items()):
        good = sum(line["verdict"] == "ok" for line in found)
        cells = [middle_and_last(found, name) for name in ("seconds", "recovery_seconds", "silence_seconds")]
        rows.append(f"| {kind} | {len(found)} | {good} | {' | '.join(cells)} |")
    of_runs = {(line["campaign"], line["run"]): line["of_run"] for line in lines if "of_run" in line}
    sums = Counter()
    for found in of_runs.values():
        sums.update({name: value for name, value in found.items() if isinstance(value, int)})
    rows.append("")
    rows.append(f"{len(lines)} faults in {len(of_runs)} runs; " + ", ".join(f"{value:,} {SUMS.get(name, name)}" for name, value in sums.items()))
    rows += [""] + [f"{what}: {', '.join(map(str, found))} s" for what, found in waits_of_names(of_runs.values())]
    return "\n".join(rows)


def waits_of_names(of_runs):
    """The measured times of names and groups: a sentence, and the median over all runs and the longest time."""
    sentences = {
        "free_after_process_s": "a name had another owner, after its process had ended",
        "free_after_node_s": "a name had another owner, after its node had ended",
        "agreed_seconds": "the records were those of the living processes, after the last fault",
        "freed_seconds": "no record was left, after all processes had ended",
    }
    for name, sentence in sentences.items():
        found = [run[name] if isinstance(run[name], list) else [run[name]] * 2 for run in of_runs if name in run]
        if found:
            medians = sorted(median for median, _ in found)
            yield sentence, (medians[len(medians) // 2], max(longest for _, longest in found))


def main():
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--results", type=Path, default=runs.KEPT / "cluster.jsonl")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--kinds", nargs="+", choices=sorted(plans.NAMES), help="only these faults")
    parser.add_argument("--crews", nargs="+", choices=runs.CREWS, default=runs.CREWS, help="only these clients")
    parser.add_argument("--one", type=int)
    parser.add_argument("--summary", nargs="+")
    options = parser.parse_args()
    if options.summary:
        print(summary(options.summary))
        return 0
    if options.one is not None:
        print(json.dumps(carry_out_one(options.seed, options.one, options.steps, options.kinds, options.crews)))
        return 0
    seed = options.seed
    if seed is None:
        # A campaign in this file goes on.
        known = read(options.results)
        seed = known[-1]["campaign"] if known else random.SystemRandom().randrange(1 << 32)
    return 1 if campaign(options.results, seed, options.faults, options.parallel, options.steps, options.kinds, options.crews) else 0


if __name__ == "__main__":
    sys.exit(main())
