"""The part of E3 with names and groups: what runs, what is refused, and what the report states. No test depends on speed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import cluster  # noqa: E402
import e3_names  # noqa: E402
from findings import SECTIONS  # noqa: E402
from findings.e3_names import GROUPS, NAMES, NamesAndGroups, Target  # noqa: E402
from test_experiments import part, report, summary, write  # noqa: E402

TINY = {
    "rounds": 1, "nodes": [1, 4], "names": 3, "names_above_64": 2, "deaths": 1, "idle_ms": 100, "clusters": ("mesh-disk", "star-disk"),
}  # fmt: skip


def silent(_text):
    """Reports nothing."""


def cell(operation, values, nodes=4, arm="todana", at="guest", mesh=True, log="disk", **fields):
    """A result with these rounds of microseconds."""
    return {
        "part": "names", "nodes": nodes, "members": min(3, nodes), "guests": max(0, nodes - 3), "mesh": mesh, "log": log, "arm": arm,
        "at": at, "operation": operation, "names": 100, "together": 3, "us_per_operation": values, **fields,
    }  # fmt: skip


def beside(operation, own, other, peer="global", **fields):
    """The rounds of Todana and of a peer."""
    return [cell(operation, own, **fields), cell(operation, other, arm=peer, at="node", **fields)]


def measured(results, words):
    """What the targets with these words are."""
    return [each.measured for each in NamesAndGroups(results).targets() if words in each.words and each.measured is not None]


# --------------------------------------------------------------------- runs ---


@pytest.fixture(scope="module")
def tiny_results():
    """The smallest run: a member alone, and three members with a guest, with and without a mesh."""
    return e3_names.run(TINY, silent)


def test_a_run_measures_names_and_groups_on_a_member_and_on_a_guest(tiny_results):
    assert not [each for each in tiny_results if "failed" in each]
    found = {(each["nodes"], each["mesh"], each["arm"], each["at"], each["operation"]) for each in tiny_results if "arm" in each}
    for operation in (*NAMES, *GROUPS):
        peer = "global" if operation in NAMES else "pg"
        assert {(1, True, peer, "node", operation), (4, True, peer, "node", operation), (1, True, "todana", "member", operation)} <= found
        assert {(4, mesh, "todana", at, operation) for mesh in (True, False) for at in ("guest", "member")} <= found
    assert {each[0] for each in found if each[1] is False} == {4}
    assert (4, False, "erpc", "guest", "call") in found
    assert not [each for each in found if each[2] in ("global", "pg") and not each[1]]


def test_a_run_counts_cpu_time_messages_and_connections(tiny_results):
    by = {(each["nodes"], each["mesh"], each["arm"], each["at"], each["operation"]): each for each in tiny_results if "arm" in each}
    assert by[4, True, "global", "node", "register"]["messages_per_operation"][0] > 0
    assert by[4, False, "todana", "guest", "register"]["bytes_per_operation"][0] > 0
    assert by[4, False, "todana", "guest", "register"]["cpu_us_per_operation"][0] > 0
    assert by[4, True, "all", "node", "idle"]["connections"] == [6]
    assert by[1, True, "all", "node", "idle"]["connections"] == [0]
    assert by[4, True, "all", "node", "idle"]["pss_mib"][0] > by[1, True, "all", "node", "idle"]["pss_mib"][0]


def test_a_run_has_a_report(tiny_results, tmp_path):
    echo = {"part": "nodes", "nodes": 1, "operation": "echo_pid", "us_per_operation": [1.0]}
    page = report(write(tmp_path, e3=[echo], **{"e3-names": tiny_results}))
    assert "Todana: join, until all know, at a guest, no mesh" in page
    assert f"names and groups <code>{tmp_path.name}/e3-names.json</code>" in page


# ------------------------------------------------------------------- refusals ---


@pytest.fixture
def small_machine(monkeypatch):
    """A machine with memory for ten nodes."""
    monkeypatch.setattr(cluster, "available_megabytes", lambda: 10 * cluster.NODE_MEGABYTES)


@pytest.mark.usefixtures("small_machine")
def test_clusters_for_which_memory_lacks_are_refused_with_the_reason():
    together, refused = e3_names.chosen(16, e3_names.CLUSTERS)
    assert together == []
    assert set(refused) == set(e3_names.CLUSTERS)
    assert set(refused.values()) == {"16 nodes need about 1120 MB of memory, and 700 MB are available"}


@pytest.mark.usefixtures("small_machine")
def test_a_run_of_which_nothing_is_possible_fails_with_the_reason():
    with pytest.raises(RuntimeError, match="256 nodes need about 17920 MB"):
        e3_names.run({**TINY, "nodes": [256]}, silent)


@pytest.mark.usefixtures("small_machine")
def test_clusters_that_fit_only_one_after_another_run_so():
    together, _ = e3_names.chosen(9, ["mesh-disk", "star-disk"])
    assert together == [("mesh-disk",), ("star-disk",)]


def test_large_clusters_run_one_after_another(monkeypatch):
    monkeypatch.setattr(cluster, "available_megabytes", lambda: 1_000_000)
    assert len(e3_names.chosen(16, e3_names.CLUSTERS)[0]) == 1
    assert len(e3_names.chosen(64, e3_names.CLUSTERS)[0]) == 3


@pytest.mark.parametrize("count", [2, 3])
def test_a_count_without_a_guest_is_refused(count):
    assert "one node or on more than 3" in e3_names.impossible(count)


def test_one_node_has_no_cluster_without_a_mesh():
    together, _ = e3_names.chosen(1, ["mesh-disk", "star-disk"])
    assert together == [("mesh-disk",)]


def test_without_a_tmpfs_the_log_in_memory_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(e3_names, "file_system", lambda _: "ext4")
    together, refused = e3_names.chosen(1, e3_names.CLUSTERS)
    assert together == [("mesh-disk",)]
    assert "is no tmpfs" in refused["mesh-memory"]


def test_the_file_system_of_a_path_is_known():
    assert e3_names.file_system("/proc") == "proc"


# --------------------------------------------------------------------- report ---


def test_a_refusal_is_on_the_page_with_its_reason(tmp_path):
    refused = {**e3_names.cell(256, "mesh-disk"), "failed": "256 nodes need more memory"}
    page = report(write(tmp_path, e3=[*beside("register", [1.0], [2.0]), refused]))
    assert ">failed</td>" in page
    assert "256 nodes need more memory" in part(page, "provenance")


def test_todana_takes_part_and_its_losses_are_named(tmp_path):
    results = beside("register", [3.0, 3.1, 3.2], [1.0, 1.1, 1.2]) + beside("join", [1.0, 1.1, 1.2], [3.0, 3.1, 3.2], peer="pg")
    page = report(write(tmp_path, e3=results))
    assert "On a cluster with its log on disk, Todana is costlier than global in 1 of 1 configurations" in part(page, "header")
    assert "cheaper than pg in 1 of 1 configurations, never costlier" in part(page, "header")
    assert summary(page)["global, Todana on a cluster with its log on disk"] == ("0", "0", "1")
    assert "2.82 times the microseconds per operation of global" in part(page, "losses")


def test_a_run_without_names_says_which_part_has_them(tmp_path):
    page = report(write(tmp_path, e3=[{"part": "nodes", "nodes": 1, "operation": "echo_pid", "us_per_operation": [1.0]}]))
    assert "which this run does not contain: bench/run --only e3-names" in part(page, "header")


def test_cpu_time_has_orderings_of_its_own():
    cpu = beside("register", [1.0], [2.0], cpu_us_per_operation=[9.0])
    contests = SECTIONS["e3"](cpu).contests
    assert {(each.peer, each.own) for each in contests} == {("global", (1.0,)), ("global by CPU", (9.0,))}


def test_orderings_compare_arms_of_one_cluster():
    results = [*beside("register", [1.0], [2.0], log="memory"), cell("register", [5.0], mesh=False)]
    (contest,) = SECTIONS["e3"](results).contests
    assert contest.back_end == "a cluster with its log in memory"


def test_a_figure_below_the_noise_has_no_ratio():
    assert SECTIONS["e3"](beside("leave", [1.0], [0.0], peer="pg")).contests == []


def test_the_targets_are_ratios_of_medians():
    results = [*beside("register", [1.0, 2.0, 9.0], [4.0, 4.0, 4.0]), *beside("whereis", [0.3], [0.2])]
    assert measured(results, "a registration by global, 4 nodes") == [0.5]
    assert measured(results, "whereis, a copy of a guest") == [pytest.approx(1.5)]
    flat = [cell("join", [2.0], mesh=False), cell("join", [3.0], nodes=64, mesh=False)]
    assert measured(flat, "64 nodes / 4 nodes") == [1.5]
    first = [cell("whereis_first", [3.0], mesh=False), cell("call", [2.0], arm="erpc", mesh=False)]
    assert measured(first, "an erpc call") == [1.5]


def test_a_missed_target_says_so():
    assert [each.text for each in Target("", 1.2, 1.3).row[1:]] == ["1.20", "1.30", "missed"]
    assert [each.text for each in Target("", 1.2, 1.2).row[1:]] == ["1.20", "1.20", "met"]
    assert Target("", 1.2, None).row[-1].text == "not measured"


def test_a_busy_host_is_named(tmp_path):
    host = {"part": "host", "load_average_before": 7.5, "disk": "ext4", "memory": "tmpfs"}
    page = report(write(tmp_path, e3=[host, *beside("register", [1.0], [2.0])]))
    assert "load average 7.5 before the run" in part(page, "e3")


def test_published_figures_stand_beside_those_of_today(tmp_path):
    page = report(write(tmp_path, e3=beside("register", [1.0], [2.0])))
    assert '<td class="published">1,704.57</td>' in page


def test_reads_of_guests_are_compared_with_calls_through_one_process():
    fields = {"part": "scale_up", "clients": 9, "schedulers": 2}
    results = [
        {**fields, "operation": "todana_get", "us_per_operation": [1.0]},
        {**fields, "operation": "rpc_one_process", "us_per_operation": [2.0]},
    ]  # fmt: skip
    (contest,) = SECTIONS["e3"](results).contests
    assert (contest.peer, contest.where, contest.ratio) == ("rpc through one process", "2 schedulers, 9 clients", 0.5)
