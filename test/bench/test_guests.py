"""What guests cost: a tiny run has all cells. No test depends on speed."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import guests  # noqa: E402

TINY = {"idle": 1, "guests": 2, "rounds": 1, "idle_ms": 100, "write_ms": 200}


def test_a_tiny_run_has_all_cells():
    """Members alone, beside a bare node and beside a guest, the memory of both, writers in both places, and messages."""
    found = guests.run(TINY, lambda _text: None)
    idle = {each["beside"]: each for each in found if each["operation"] == "idle"}
    assert {beside: each["others"] for beside, each in idle.items()} == {"none": 0, "bare": 1, "guests": 1}
    assert all(len(each["cpu_percent"]) == 1 and each["cpu_percent"][0] > 0 for each in idle.values())
    (memory,) = [each for each in found if each["operation"] == "memory"]
    assert memory["guest_pss_mib"][0] > 0 and memory["bare_pss_mib"][0] > 0
    writes = {each["at"]: each for each in found if each["operation"] == "writes"}
    assert {at: each["writers"] for at, each in writes.items()} == {"guests": 2, "member": 2}
    assert all(each["cpu_us_per_write"][0] > 0 for each in writes.values())
    (calls,) = [each for each in found if each["operation"] == "calls"]
    assert calls["writers"] == 2 and calls["cpu_us_per_call"][0] > 0
