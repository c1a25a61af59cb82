"""Many names and groups: a tiny run has all cells, and the figures follow from them. No test depends on speed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import cluster  # noqa: E402
import names_many  # noqa: E402

TINY = {
    "nodes": 5, "names": 200, "groups": 20, "large": 2, "large_members": 10, "owners": 10, "width": 4,
    "global_names": 50, "global_names_apart": 100, "dying": 60, "load_ms": 1_000, "register_ms": 50, "whereis_ms": 20,
}  # fmt: skip


def silent(_text):
    """Reports nothing."""


@pytest.fixture(scope="module")
def tiny_results():
    """The smallest run: three members and two guests, of which one dies."""
    return names_many.run(TINY, silent)


def test_a_run_measures_the_memory_of_each_stage(tiny_results):
    assert not [each for each in tiny_results if "failed" in each]
    stages = {}
    for each in tiny_results:
        if each["operation"] == "memory":
            stages.setdefault((each["arm"], each.get("apart")), []).append(each["stage"])
            assert all(node["pss_kib"] > 0 and node["erlang_bytes"] > 0 for node in each["nodes"])
    assert stages == {
        ("todana", None): ["started", "named", "grouped", "large", "dead", "freed"],
        ("pg", None): ["started", "grouped", "large"],
        ("global", False): ["started", "named"],
        ("global", True): ["started", "named"],
    }


def test_figures_are_of_as_many_names_as_they_say(tiny_results):
    found = {(each["arm"], each.get("apart"), each["of"]): each["count"] for each in tiny_results if each["operation"] == "bytes"}
    assert found == {
        ("todana", None, "name"): 200, ("todana", None, "group"): 20, ("todana", None, "member"): 100,
        ("pg", None, "group"): 20, ("pg", None, "member"): 100, ("global", False, "name"): 50, ("global", True, "name"): 100,
    }  # fmt: skip


def test_nodes_are_members_and_guests(tiny_results):
    kinds = {
        each["stage"]: [node["kind"] for node in each["nodes"]] for each in tiny_results if each["operation"] == "memory" and each["arm"] == "todana"
    }  # fmt: skip
    assert kinds["started"] == ["member"] * 3 + ["guest"] * 2
    assert sorted(kinds["dead"]) == ["guest", "member", "member"]


def test_a_guest_and_a_member_die_and_their_names_become_free(tiny_results):
    freed = {each["dies"]: each for each in tiny_results if each["operation"] == "freed"}
    assert set(freed) == {"guest", "member"}
    for each in freed.values():
        assert each["freed_names"] == 60
        # Silence of ten seconds, counted from a heartbeat that came up to a second before.
        assert 8_000 < each["first_free_ms"] <= each["last_free_ms"]


def test_calls_are_measured_with_and_without_a_death(tiny_results):
    calls = {(each["dies"], each["window"], each["phase"], each["call"]): each for each in tiny_results if each["operation"] == "latency"}
    for dies in ("guest", "member"):
        for call in ("register", "whereis", "whereis_first"):
            before = calls[dies, "before", "all", call]
            assert before["calls"] > 0 and before["failures"] == 0
            assert before["p50_us"] <= before["p99_us"] <= before["max_us"]
            assert calls[dies, "death", "silent", call]["calls"] > 0


def test_bytes_are_differences_of_stages():
    def stage(name, pss_kib, disk):
        node = {"kind": "member", "pss_kib": pss_kib, "erlang_bytes": 1024 * pss_kib}
        return {"operation": "memory", "stage": name, "nodes": [node, node], "disk_bytes": disk, "written_bytes": 2 * disk}

    arm = {**TINY, "arm": "todana"}
    name, group = names_many.differences(arm, [stage("started", 100, 0), stage("named", 200, 400), stage("grouped", 200, 400)])
    assert (name["of"], name["pss_bytes"], name["disk_bytes"], name["written_bytes"]) == ("name", 1024.0, 2.0, 4.0)
    assert (group["of"], group["erlang_bytes"]) == ("group", 0.0)


def test_names_for_which_memory_lacks_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(cluster, "available_megabytes", lambda: 1_000)
    with pytest.raises(RuntimeError, match="1000000 names on 16 nodes need about"):
        names_many.run(names_many.FULL, silent)
