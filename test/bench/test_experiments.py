"""The report of the experiments: what it states about results, and that runs end in one. No test depends on speed."""

from __future__ import annotations

import html
import importlib.machinery
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

import e5  # noqa: E402
import machine  # noqa: E402
from findings import SECTIONS, section  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Each experiment as small as it can be.
TINY = {
    "e1": {"cell_ms": 5, "rounds": 1, "clients": [1, 2], "sizes": [16], "entries": 10},
    "e2": {"cell_ms": 5, "rounds": 1, "processes": [1, 2]},
    "e3": {
        "rounds": 1, "nodes": [0, 1], "echoes": 50, "calls": 50, "processes": 50, "names": 2, "schedulers": [1],
        "clients": [1], "operations": 50,
    },
    "e4": {"rounds": 1, "deadline_ms": 5_000, "messages": [100]},
    "e5": {
        "rounds": 1, "traced_requests": 50, "traced": ["get"],
        "cells": [{"connections": 10, "active": 10, "requests": 50, "protocols": ["resp"]},
                  {"connections": 1_000, "active": 10, "requests": 50, "protocols": ["resp"]}],
    },
}  # fmt: skip
TINY_PARTS = {
    "e3-names": {
        "rounds": 1, "nodes": [1], "names": 2, "names_above_64": 1, "deaths": 1, "idle_ms": 100, "clusters": ("mesh-disk",),
    },
}  # fmt: skip


def program(name):
    """A program of bench/ as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def reads(todana, ets, clients=1):
    """Results of E1 with these rounds."""
    cell = {"keys": "integer", "value_bytes": 8, "spread": "spread", "clients": clients}
    return [
        {**cell, "arm": arm, "reads_per_second": found, "cpu_us_per_read": [0.1] * len(found)}
        for arm, found in (("ets", ets), ("todana", todana))
    ]


def served(operation="get", **fields):
    """A result of E5."""
    return {
        "server": "todana", "backend": "native", "protocol": "resp", "connections": 10, "active": 10,
        "requests": 100, "operation": operation, "system_calls": {},
        "rounds": [{"seconds": 0.1, "requests": 100, "server_cpu_us_per_request": 5.0}], **fields,
    }  # fmt: skip


def cpu(*found):
    """Rounds of E5 with these figures."""
    return [{"seconds": 0.1, "requests": 100, "server_cpu_us_per_request": each} for each in found]


def flood(messages=1_000, lost=0, **fields):
    """A result of E4 with one round."""
    one = {
        "sent": messages, "received": messages - lost, "lost": lost, "duplicated": 0, "out_of_order": 0, "per_second": 1e5,
        "p50_us": 1e3, "p99_us": 2e3, "queue_peak": 10, "gc_count": 1, "gc_ms": 1.0, "cpu_ms": None, **fields,
    }  # fmt: skip
    return {"messages": messages, "mailbox": "on_heap", "path": "timer", "rounds": [one]}


def write(directory, **experiments):
    """Raw results as bench/run keeps them."""
    directory.mkdir(exist_ok=True)
    for name, results in experiments.items():
        facts = machine.facts(["--quick"], {"rounds": 1})
        (directory / f"{name}.json").write_text(json.dumps({"machine": facts, "results": results}))
    return directory


def report(directory, *flags):
    """The page that bench/experiments makes."""
    output = directory / "report.html"
    # In this process: the plots' library takes longer to load than a page to write.
    sys.argv = list(map(str, ["bench/experiments", "--results", directory, "--output", output, *flags]))
    program("experiments").main()
    return output.read_text()


def words(page):
    """The text of a page or of a part of it."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


def part(page, name):
    """The text of the element with this id, or of the page's header."""
    if name == "header":
        return words(page[page.index("<header>") : page.index("</header>")])
    element = next(each for each in ElementTree.fromstring(page).iter() if each.get("id") == name)
    return words(ElementTree.tostring(element, encoding="unicode"))


def summary(page):
    """The rows of the summary table: for each peer, how often Todana is better, within the noise and worse."""
    body = re.findall(r'<tr><th scope="row">(.*?)</th><td>.*?</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>', page)
    return {words(peer): tuple(counts) for peer, *counts in body}


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """A directory in which bench/run --quick --experiments has left its results, with the smallest of plans."""
    directory = tmp_path_factory.mktemp("tiny")
    run = program("run")
    for name, plan in (TINY | TINY_PARTS).items():
        run.PARTS[name].QUICK = plan
    sys.argv = ["bench/run", "--quick", "--experiments", "--output", str(directory)]
    run.main()
    return directory


@pytest.fixture(scope="module")
def tiny_page(tiny_run):
    """Its report."""
    return (tiny_run / "report.html").read_text()


# --------------------------------------------------------------------- runs ---


@pytest.mark.parametrize("name", TINY)
def test_a_run_leaves_results_of_each_experiment(tiny_run, name):
    found = json.loads((tiny_run / f"{name}.json").read_text())
    assert "failed" not in found
    assert found["results"]
    assert not [each for each in found["results"] if "failed" in each]
    assert found["machine"]["plan"] == TINY[name]


@pytest.mark.parametrize("name", TINY)
def test_the_report_has_a_section_with_plot_and_table_for_each_experiment(tiny_page, name):
    section = next(each for each in ElementTree.fromstring(tiny_page).iter("section") if each.get("id") == name)
    assert section.find(".//{http://www.w3.org/2000/svg}svg") is not None
    assert section.find(".//table") is not None


def test_the_report_is_well_formed_and_its_ids_are_unique(tiny_page):
    ids = [each.get("id") for each in ElementTree.fromstring(tiny_page).iter() if each.get("id")]
    assert len(ids) == len(set(ids))


def test_the_report_refers_to_nothing_outside(tiny_page):
    page = ElementTree.fromstring(tiny_page)
    links = [value for each in page.iter() for name, value in each.attrib.items() if re.search(r"(href|src)$", name)]
    assert all(link.startswith("#") for link in links), links
    assert not re.search(r"<(script|link|iframe|img)\b|@import|url\((?!#)", tiny_page)


@pytest.mark.parametrize("name", TINY)
def test_the_report_names_its_raw_data(tiny_page, tiny_run, name):
    assert f"<code>{tiny_run.name}/{name}.json</code>" in tiny_page


def test_select_beyond_its_limit_is_shown_as_not_possible(tiny_run, tiny_page):
    results = json.loads((tiny_run / "e5.json").read_text())["results"]
    reasons = {each["not_possible"] for each in results if each["backend"] == "select" and each["connections"] == 1_000}
    assert len(reasons) == 1 and "960" in reasons.pop()
    assert "not possible" in tiny_page


def rendered(page, directory, width):
    """The page in a frame of this width, as Chromium lays it out: the width of the frame and that of its content."""
    frame = f'<iframe id="f" style="width: {width}px; height: 900px; border: 0" srcdoc="{html.escape(page)}"></iframe>'
    script = "onload = () => { let d = document.getElementById('f').contentDocument.documentElement; document.title = [d.clientWidth, d.scrollWidth] }"
    (directory / "frame.html").write_text(f"<!DOCTYPE html><body>{frame}<script>{script}</script></body>")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--virtual-time-budget=5000", "--dump-dom"]
    shown = subprocess.run([*command, (directory / "frame.html").as_uri()], check=True, capture_output=True, text=True, timeout=300).stdout
    return tuple(map(int, re.search(r"<title>(\d+),(\d+)</title>", shown).groups()))


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
@pytest.mark.parametrize("width", [1280, 375])
def test_nothing_is_wider_than_the_page(tiny_page, tmp_path, width):
    frame, content = rendered(tiny_page.replace("<details>", '<details open="open">'), tmp_path, width)
    assert content <= frame <= width


# ---------------------------------------------------------------- orderings ---


def test_a_loss_is_in_the_first_lines_the_summary_and_its_section(tmp_path):
    page = report(write(tmp_path, e1=reads([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])))
    assert "Slower than named ETS in 1 of 1 configurations (0.52 of the rate of named ETS)" in part(page, "header")
    assert summary(page)["named ETS (the published remedy)"] == ("0", "0", "1")
    assert "Todana loses in these comparisons, beyond the noise" in part(page, "losses")
    lost = "0.52 of the rate of named ETS in 1 of 1 configuration"
    assert lost in part(page, "losses")
    assert lost in part(page, "e1")


def test_a_page_without_a_loss_says_so(tmp_path):
    page = report(write(tmp_path, e1=reads([2.0, 2.1, 2.2], [1.0, 1.1, 1.2])))
    assert "Faster than named ETS in 1 of 1 configurations, never slower" in part(page, "header")
    assert "Todana loses in no configuration beyond the noise" in part(page, "losses")
    assert "None beyond the noise" in part(page, "e1")


def test_rounds_that_overlap_are_within_the_noise(tmp_path):
    page = report(write(tmp_path, e1=reads([1.0, 1.1, 2.1], [2.0, 2.1, 2.2])))
    assert summary(page)["named ETS (the published remedy)"] == ("0", "1", "0")
    assert "Within the noise of named ETS in all 1" in part(page, "header")


def test_a_worse_median_is_named_even_if_rounds_overlap(tmp_path):
    page = report(write(tmp_path, e1=reads([1.0, 1.1, 2.1], [2.0, 2.1, 2.2])))
    assert "Within the noise, with a worse median named ETS (the published remedy): 1 of 1, at 0.52 of its rate" in part(page, "e1")


def test_an_order_that_a_second_run_does_not_confirm_is_not_stated(tmp_path):
    first = write(tmp_path / "first", e1=reads([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]))
    write(first / "second", e1=reads([3.0, 3.1, 3.2], [2.0, 2.1, 2.2]))
    assert summary(report(first))["named ETS (the published remedy)"] == ("0", "1", "0")


def test_an_order_that_a_second_run_did_not_measure_is_not_confirmed(tmp_path):
    first = write(tmp_path / "first", e1=reads([2.0, 2.1, 2.2], [1.0, 1.1, 1.2]))
    write(first / "second", e1=reads([2.0, 2.1, 2.2], [1.0, 1.1, 1.2], clients=2))
    page = report(first)
    assert "Faster than named ETS in 1 of 1 configurations (not confirmed by the second run)" in part(page, "header")
    assert "named ETS (the published remedy), not confirmed" in summary(page)


def test_a_loss_that_the_second_run_did_not_measure_is_marked(tmp_path):
    first = write(tmp_path / "first", e1=reads([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]))
    write(first / "second", e2=[])
    page = report(first)
    assert "in 1 of 1 configuration (not confirmed by the second run)" in part(page, "losses")
    assert "E1: not measured in the second run" in part(page, "provenance")


def test_a_failure_of_the_second_run_only_is_listed(tmp_path):
    first = write(tmp_path / "first", e1=reads([2.0, 2.1, 2.2], [1.0, 1.1, 1.2]))
    gone = [{**each, "reads_per_second": [], "failed": "the table is gone"} for each in reads([1.0], [1.0])]
    write(first / "second", e1=gone)
    page = report(first)
    assert "second run: E1, failed: Todana at 1" in part(page, "provenance")
    assert "not confirmed by the second run" in part(page, "header")


def test_a_second_run_of_few_rounds_confirms_nothing(tmp_path):
    first = write(tmp_path / "first", e1=reads([2.0, 2.1, 2.2], [1.0, 1.1, 1.2]))
    write(first / "second", e1=reads([2.0], [1.0]))
    assert "not confirmed by the second run" in part(report(first), "header")


def test_an_order_of_both_runs_is_stated(tmp_path):
    first = write(tmp_path / "first", e1=reads([2.0, 2.1, 2.2], [1.0, 1.1, 1.2]))
    write(first / "second", e1=reads([3.0, 3.1, 3.2], [1.0, 1.1, 1.2]))
    page = report(first)
    assert summary(page)["named ETS (the published remedy)"] == ("1", "0", "0")
    assert "second run <code>first/second/e1.json</code>" in page


def test_few_rounds_are_said_to_be_few(tmp_path):
    page = report(write(tmp_path, e1=reads([1.0], [2.0])))
    assert "by the median of few rounds" in part(page, "losses")
    assert "too few rounds to state an ordering" in part(page, "summary")


def back_ends(**figures):
    """Results of E5 with these rounds of CPU time by back end, beside those of redis."""
    own = [served(backend=name, rounds=cpu(*found)) for name, found in figures.items() if name != "redis"]
    return [*own, served(server="redis", backend=None, rounds=cpu(*figures["redis"]))]


def test_a_loss_names_its_back_end(tmp_path):
    page = report(write(tmp_path, e5=back_ends(native=(5.0, 5.1, 5.2), poll=(9.0, 9.1, 9.2), redis=(7.0, 7.1, 7.2))))
    assert summary(page)["Redis, Todana on native (default)"] == ("1", "0", "0")
    assert summary(page)["Redis, Todana on poll"] == ("0", "0", "1")
    assert "Todana on poll : 1.28 times the server CPU per request of Redis" in part(page, "losses")
    assert "On poll , it uses more CPU than Redis in 1 of 1 configurations" in part(page, "header")


def test_a_back_end_that_is_not_the_default_is_in_the_first_lines_only_with_losses(tmp_path):
    page = report(write(tmp_path, e5=back_ends(native=(5.0, 5.1, 5.2), poll=(5.0, 5.1, 5.2), redis=(7.0, 7.1, 7.2))))
    assert "On native (default), Todana uses less CPU" in part(page, "header")
    assert "poll" not in part(page, "header").partition("Todana On native")[2]


def test_less_cpu_is_better():
    contest = section.Contest("peer", "cell", (1.0, 1.1, 1.2), (2.0, 2.1, 2.2), False)
    assert contest.verdict == "better"


# ------------------------------------------------------------------- claims ---


def scaling(arm, one, several):
    """Results of E1 for one client and for eight."""
    cell = {"arm": arm, "keys": "integer", "value_bytes": 8, "spread": "spread", "cpu_us_per_read": [0.1] * 3}
    return [{**cell, "clients": clients, "reads_per_second": [rate] * 3} for clients, rate in ((1, one), (8, several))]


def answered(name, results):
    """Whether the claims of an experiment hold, by their subjects."""
    return {claim.subject: claim.holds for claim in SECTIONS[name](results).claims}


@pytest.mark.parametrize(("dict_rates", "ets_rates", "holds"), [
    ((1.0, 1.4), (1.0, 1.9), (True, True)), ((1.0, 2.0), (1.0, 1.2), (False, False)),
])  # fmt: skip
def test_claims_of_e1_follow_from_the_scale(dict_rates, ets_rates, holds):
    found = answered("e1", [*scaling("dict", *dict_rates), *scaling("ets", *ets_rates)])
    assert found == dict(zip(("the owning process is a bottleneck", "a named ETS table scales"), holds))


def statuses(ets, gen_server):
    """Results of E2 with these rounds."""
    cell = {"processes": 1, "profile": [], "cpu_us_per_operation": [1.0]}
    return [{**cell, "arm": arm, "operations_per_second": rates} for arm, rates in (("gen_server", gen_server), ("ets", ets))]


@pytest.mark.parametrize(("ets", "holds"), [([4.0, 4.1, 4.2], True), ([1.0, 1.1, 4.0], False)])
def test_the_claim_of_e2_follows_from_the_order_of_rounds(ets, holds):
    assert answered("e2", statuses(ets, [2.0, 2.1, 2.2])) == {"a shared table is faster than calls to one process": holds}


def clusters(operation, *times):
    """Results of E3 with 1, 4, 16 nodes."""
    return [
        {"part": "nodes", "nodes": nodes, "operation": operation, "us_per_operation": [time] * 3}
        for nodes, time in zip((1, 4, 16), times)
    ]


@pytest.mark.parametrize(("echo", "register", "holds"), [((5.0, 4.0, 6.0), (5.0, 50.0, 90.0), (True, True)), ((5.0, 11.0, 6.0), (5.0, 5.0, 6.0), (False, False))])
def test_claims_of_e3_follow_from_the_growth(echo, register, holds):
    found = answered("e3", [*clusters("echo_pid", *echo), *clusters("global_register", *register)])
    assert tuple(found.values()) == holds


def schedulers(operation, one, two):
    """Results of E3 with 1 and 2 schedulers."""
    return [
        {"part": "scale_up", "clients": 1, "schedulers": count, "operation": operation, "us_per_operation": [time] * 3}
        for count, time in ((1, one), (2, two))
    ]


@pytest.mark.parametrize(("echo", "through_one", "holds"), [((4.0, 2.0), (4.0, 4.0), True), ((4.0, 2.0), (4.0, 1.0), False), ((4.0, 4.0), (4.0, 4.0), None)])
def test_a_scale_up_that_nothing_shows_cannot_be_judged(echo, through_one, holds):
    found = answered("e3", [*clusters("monitor", 1.0), *schedulers("echo_many", *echo), *schedulers("rpc_one_process", *through_one)])
    assert found == {"one process in the path stops scale-up": holds}


@pytest.mark.parametrize(("large", "holds"), [(1e3, (True, False)), (1e5, (False, True))])
def test_claims_of_e4_follow_from_the_largest_flood(large, holds):
    results = []
    for mailbox in ("on_heap", "off_heap"):
        for messages, rate in ((1_000, 1e5), (2_000, large)):
            results.append({**flood(messages, per_second=rate), "mailbox": mailbox, "path": "direct"})
    assert tuple(answered("e4", results).values()) == holds


@pytest.mark.parametrize(("poll", "silent", "futex", "holds"), [(5.5, 50.0, 2.0, (True, True, True)), (9.0, 5.5, 0.0, (False, False, False))])
def test_claims_of_e5_follow_from_the_back_ends(poll, silent, futex, holds):
    calls = {"system_calls": {"total_per_request": 3.0, "futex_per_request": futex, "calls": {}}}
    many = {"connections": 1_000, "active": 10}
    results = [
        served(rounds=cpu(5.0), **calls), served(backend="poll", rounds=cpu(poll)), served(rounds=cpu(5.0), **many),
        served(backend="poll", rounds=cpu(silent), **many),
    ]  # fmt: skip
    assert tuple(answered("e5", results).values()) == holds


def test_a_claim_on_which_the_runs_disagree_is_not_stated(tmp_path):
    first = write(tmp_path / "first", e2=statuses([4.0, 4.1, 4.2], [2.0, 2.1, 2.2]))
    write(first / "second", e2=statuses([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]))
    assert "The two runs disagree: a shared table is faster" in part(report(first), "header")


# --------------------------------------------------------------------- gaps ---


def test_an_arm_that_failed_shows_as_failed_with_its_reason(tmp_path):
    gone = served(rounds=[], backend="poll", failed="the generator did not connect")
    page = report(write(tmp_path, e5=[served(), gone]))
    assert ">failed</td>" in page
    assert "the generator did not connect" in page


def test_an_arm_that_failed_on_the_way_has_no_part_in_an_order():
    own = [served(rounds=cpu(5.0, 5.0, 5.0)), served(rounds=cpu(9.0), server="redis", backend=None, failed="gone")]
    assert SECTIONS["e5"](own).contests == []


def test_nodes_for_which_memory_is_missing_show_as_failed_with_the_reason(tmp_path):
    results = [
        {"part": "nodes", "nodes": 1, "operation": "echo_pid", "us_per_operation": [1.0]},
        {"part": "nodes", "nodes": 256, "operation": "all", "failed": "256 nodes need more memory"},
    ]
    page = report(write(tmp_path, e3=results))
    assert ">failed</td>" in page
    assert "E3, failed: echo by pid: 256 nodes need more memory" in page


def test_scheduler_counts_that_e3_left_out_are_named(tmp_path):
    results = [
        {"part": "nodes", "nodes": 1, "operation": "echo_pid", "us_per_operation": [1.0]},
        {"part": "scale_up", "clients": 1, "schedulers": 1, "operation": "erpc", "us_per_operation": [1.0],
         "scheduler_counts_left_out": [4, 8]},
    ]  # fmt: skip
    assert "above this machine's cores (4, 8) were left out" in html.unescape(report(write(tmp_path, e3=results)))


def test_a_failed_cell_is_named_by_its_column_too(tmp_path):
    results = reads([2.0], [1.0])
    results[0] = {**results[0], "reads_per_second": [], "failed": "the table is gone"}
    assert "E1, failed: named ETS at 1 (Millions of reads per second, integer keys)" in report(write(tmp_path, e1=results))


def test_a_profiler_that_failed_shows_as_failed(tmp_path):
    cell = {"arm": "ets", "processes": 1, "operations_per_second": [1.0], "cpu_us_per_operation": [1.0], "profile": []}
    gone = {"profiler": "counters", "failed": "the node is gone"}
    assert "the node is gone" in report(write(tmp_path, e2=[cell, gone]))


def test_runs_of_e5_are_listed_with_their_requests(tmp_path):
    fewer = served(backend="poll", rounds=cpu(5.0), requests=10)
    page = report(write(tmp_path, e5=[served(rounds=cpu(5.0, 6.0)), fewer]))
    assert "10 connections: 2 rounds of 100 (10 if the back end examines every connection)" in page


def test_messages_that_were_lost_are_reported_beside_the_rates(tmp_path):
    page = report(write(tmp_path, e4=[flood(lost=0), flood(messages=2_000, lost=7)]))
    assert "1 round of timer buffer, on_heap with 2,000 messages" in page


def test_a_flood_without_loss_says_so(tmp_path):
    page = report(write(tmp_path, e4=[flood(lost=0)]))
    assert "each message came back exactly once" in page


def test_a_round_in_which_nothing_came_back_has_a_report(tmp_path):
    page = report(write(tmp_path, e4=[flood(lost=1_000, p50_us=None, p99_us=None)]))
    assert "1 round of timer buffer, on_heap with 1,000 messages" in page


def test_a_round_too_short_for_cpu_time_has_none(tmp_path):
    results = [{**each, "cpu_us_per_read": [None] * 3} for each in reads([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])]
    assert "CPU microseconds" in report(write(tmp_path, e1=results))


def test_system_calls_that_could_not_be_counted_show_as_failed(tmp_path):
    counted = served(operation="set", system_calls={"total_per_request": 3.0, "futex_per_request": 0.1, "calls": {}})
    page = report(write(tmp_path, e5=[counted, served(system_calls={"failed": "strace is not installed"})]))
    assert "strace is not installed" in page


def test_an_experiment_that_failed_shows_as_failed(tmp_path):
    write(tmp_path, e1=reads([2.0], [1.0]), e2=[])
    found = json.loads((tmp_path / "e2.json").read_text())
    (tmp_path / "e2.json").write_text(json.dumps({**found, "failed": "the Erlang node ended with 1"}))
    assert "the Erlang node ended with 1" in report(tmp_path)


def test_an_experiment_without_results_is_left_out_with_a_note(tmp_path):
    page = report(write(tmp_path, e1=reads([2.0], [1.0])))
    assert "E3: not measured in this run" in page
    assert 'id="e3"' not in page


def test_published_figures_are_marked_with_their_year(tmp_path):
    page = report(write(tmp_path, e1=reads([2.0], [1.0])))
    assert '<th scope="col" class="published">named ETS, 2014</th>' in page
    assert '<td class="published">3.11</td>' in page


# --------------------------------------------------------------------- docs ---


def test_the_page_for_the_repository_has_its_plots_beside_it(tmp_path):
    report(write(tmp_path / "raw", e1=reads([2.0], [1.0])), "--docs", tmp_path / "docs")
    text = (tmp_path / "docs" / "experiments.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert "experiments/e1-reads.svg" in links
    assert all((tmp_path / "docs" / link).exists() for link in links), links
    ElementTree.parse(tmp_path / "docs" / "experiments" / "e1-reads.svg")


def test_the_committed_pages_are_those_of_the_committed_results(tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    command = [sys.executable, BENCH / "experiments", "--output", tmp_path / "report.html", "--docs", tmp_path / "docs"]
    subprocess.run([*command, "--readme", tmp_path / "README.md"], check=True, stdout=subprocess.PIPE)
    assert (ROOT / "README.md").read_text() == (tmp_path / "README.md").read_text(), "run make report"
    written = (tmp_path / "docs" / "experiments.md").read_text()
    results = re.search(r"from \[raw results\]\((.*?)\)", written)[1]
    place = "../../" + str((tmp_path / "docs" / results).resolve().relative_to(ROOT))
    assert (ROOT / "docs" / "measured" / "experiments.md").read_text() == written.replace(results, place), "run make report"


# ------------------------------------------------------------- system calls ---

TABLE = """strace: Process 1 detached
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.11    0.002200           2      1000           epoll_wait
 38.89    0.001400           1      1200       200 futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.003600           1      2200       200 total
"""


def test_the_table_of_strace_is_read():
    assert e5.parse(TABLE) == {"epoll_wait": 1000, "futex": 1200}


def test_system_calls_are_counted_for_each_request():
    found = e5.per_request(e5.parse(TABLE), 1000)
    assert (found["total_per_request"], found["futex_per_request"]) == (2.2, 1.2)


def test_a_tracer_that_may_not_attach_says_why():
    with pytest.raises(RuntimeError, match="no table"):
        e5.parse("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted")


def test_the_first_lines_name_only_the_part_that_is_not_reproduced(tmp_path):
    report(write(tmp_path, e1=[*scaling("dict", 1.0, 0.9), *scaling("ets", 1.0, 1.1)]), "--docs", tmp_path / "docs")
    text = (tmp_path / "docs" / "experiments.md").read_text()
    assert "(2014): reproduced, except that a named ETS table scales (not reproduced)." in text


def test_a_back_end_within_the_noise_is_said_to_be(tmp_path):
    page = report(write(tmp_path, e5=back_ends(native=(5.0, 5.1, 7.2), redis=(7.0, 7.1, 7.2))))
    assert "On native (default), Todana is within the noise of Redis in all 1" in part(page, "header")


def test_the_reason_of_select_is_in_the_words_of_the_experiment(tmp_path):
    refused = served(backend="select", rounds=[], not_possible="the event back end select serves at most 960 connections, but 1032 are to be allowed")
    assert "but the test needs 1,032" in report(write(tmp_path, e5=[refused]))
