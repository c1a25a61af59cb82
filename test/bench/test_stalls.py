"""Stalls: every command has a row, and every row runs. No test depends on how long anything waits."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

import machine  # noqa: E402
import stalls  # noqa: E402
from stalls import erlang, exceptions, kyoto, latency, memcached, resp  # noqa: E402
from stalls.row import FULL, TINY  # noqa: E402


def document(name):
    """The part of a page that lists commands; the tests of the protocols keep it true to the server's table."""
    return (ROOT / "docs" / f"commands-{name}.md").read_text()


def first_cells(text):
    """The first cell of each row of the tables, without its code marks."""
    return re.findall(r"^\| `([^`]*)` \|", text, re.MULTILINE)


def resp_names():
    """Commands of RESP as `client|list`: the words before the first argument."""
    cells = first_cells(document("resp").partition("\n## Commands\n")[2])
    return {"|".join(re.match(r"[A-Z_.-]+(?: [A-Z_.-]+)*", cell)[0].lower().split()) for cell in cells}


def memcached_names():
    """Commands of memcached."""
    text, _, rest = document("memcached").partition("\n## Commands\n")[2].partition("### Flags")
    opcodes = re.findall(r"^\| `0x..` \| ([^|]*) \|", rest, re.MULTILINE)
    return {cell.split()[0] for cell in first_cells(text)} | {f"binary {name}" for name in opcodes}


def kyoto_names():
    """Procedures, and methods of REST and of the binary protocol."""
    names = set()
    for part in re.split(r"\n## ", document("kyoto")):
        if part.partition("\n")[0] in ("Server", "Record", "Bulk", "Match", "Cursor", "Rest", "Binary"):
            names |= set(first_cells(part))
    return names


def erlang_names():
    """Exported functions of the API."""
    source = (ROOT / "src" / "api" / "todana.erl").read_text()
    exported = " ".join(re.findall(r"-export\(\[(.*?)\]\)", source, re.DOTALL))
    return set(re.findall(r"\w+/\d+", exported))


@pytest.mark.parametrize(
    ("names", "rows"),
    [(resp_names, resp.rows), (memcached_names, memcached.rows), (kyoto_names, kyoto.rows), (erlang_names, erlang.rows)],
)
def test_every_command_has_a_row(names, rows):
    covered = {name for row in rows(FULL) for name in row.covers}
    assert names() - covered == set(), "commands without a row: bench/stalls must drive each"
    assert covered - names() == set(), "rows of commands that do not exist"
    assert len(names()) > 20


def test_names_of_rows_differ():
    names = [row.name for row in stalls.rows(FULL)]
    assert sorted(set(names)) == sorted(names)


def test_rows_that_remove_the_records_of_others_come_last():
    spoiling = [bool(row.spoils) for row in stalls.rows(FULL)]
    assert spoiling == sorted(spoiling)


def test_exceptions_are_rows_and_name_their_limit():
    names = [row.name for row in stalls.rows(FULL)]
    for beginning, words in exceptions.EXCEPTIONS.items():
        assert any(name.startswith(beginning) for name in names), beginning
        assert words


@pytest.fixture(scope="module")
def found():
    """Results of every row, with the smallest amounts."""
    said = []
    results = stalls.run(stalls.TINY, said.append)
    assert len(said) == stalls.steps(stalls.TINY)
    return results


def test_every_row_can_be_run(found):
    assert [row["row"] for row in found] == [row.label for row in stalls.rows(TINY)]
    assert [(row["row"], row.get("failed")) for row in found if not row["rounds"]] == []
    outcomes = {row["row"]: one["outcome"] for row in found for one in row["rounds"]}
    assert {label: words for label, words in outcomes.items() if words in ("timed out", "failed")} == {}


def test_rounds_report_how_long_each_probe_waited(found):
    for row in found:
        for one in row["rounds"]:
            assert len(one["network_us"]) == stalls.host.EVENT_LOOPS
            assert one["local_us"] >= 0


# ------------------------------------------------------------------- page ---


def one(network_ms=1.0, local_ms=1.0, occupied_ms=0, outcome="done"):
    """A round."""
    return {
        "network_us": [0, int(network_ms * 1000)], "local_us": int(local_ms * 1000), "occupied_ms": occupied_ms, "outcome": outcome,
        "memory_bytes": 1 << 20, "seconds": 0.5, "is_at_least": False, "answer": "",
    }  # fmt: skip


def row(label, *rounds, protocol="resp"):
    """A row of results."""
    return {"protocol": protocol, "row": label, "covers": [], "is_constant": False, "rounds": list(rounds)}


def part(*rows):
    """Results of the part."""
    noise = [row(label, one(), protocol="none") for label in ("nothing", "a busy process")]
    return {"machine": {**machine.facts([], stalls.TINY), "records": 1_000}, "results": [*noise, *rows]}


def page(*rows, before=None):
    """The page of these rows."""
    paths = {name: Path("results") / f"{name}.json" for name in ("stalls", "stalls-before")}
    return latency.page(part(*rows), before, paths)


def test_a_wait_counts_as_the_median_minus_the_noise():
    quick, slow = row("A", one(21.0), one(20.5), one(500.0)), row("B", one(21.5), one(22.0), one(1.0))
    assert "1 of 2 requests are within the rule" in page(quick, slow)
    assert "**B**" in page(quick, slow) and "**A**" not in page(quick, slow)


def test_an_occupied_scheduler_is_reported():
    assert "**A**" in page(row("A", one(occupied_ms=3)))
    assert "**A**" not in page(row("A", one(occupied_ms=2)))


def test_an_exception_names_what_bounds_it(monkeypatch):
    monkeypatch.setitem(exceptions.EXCEPTIONS, "resp: A", "at most 7 of them")
    assert "| RESP: A | 99 | 0 | at most 7 of them |" in page(row("A", one(100.0)))
    assert "no documented limit yet" in page(row("B", one(100.0)))


def test_requests_that_did_not_end_or_were_refused_are_marked():
    text = page(row("A", one(outcome="timed out")), row("B", one(outcome="ERR too much")), {**row("C"), "failed": "no time was left"})
    assert "more than 500" in text and "500.0, ERR too much" in text and "no time was left" in text


def test_an_earlier_commit_is_shown_beside():
    text = page(row("A", one(2.0)), before=part(row("A", one(777.0))))
    assert "before: network (ms)" in text and "777.0" in text


def test_the_report_writes_the_page(tmp_path):
    (tmp_path / "stalls.json").write_text(json.dumps(part(row("A", one()))))
    command = [sys.executable, str(BENCH / "report"), "--results", str(tmp_path), "--latency", str(tmp_path / "latency.md")]
    subprocess.run(command, check=True)
    assert (tmp_path / "latency.md").read_text().startswith("# How long others wait")
