"""Raw results as JSON: one round per line, nothing lost, and compressed if they are long."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import raw_results  # noqa: E402

FILES = sorted((ROOT / "bench" / "results").rglob("*.json*"))


@pytest.mark.parametrize("value", [{}, [], {"results": []}, {"machine": {"plan": {"cells": [{"a": [1]}]}}}, {"a": [None, True, 0.1, "x\n"]}])
def test_what_is_written_reads_back_the_same(value):
    assert json.loads(raw_results.dumps(value)) == value


def test_each_round_has_one_line():
    rounds = [{"seconds": 0.1, "network_us": [1, 2]}, {"seconds": 0.2, "network_us": [3, 4]}]
    lines = raw_results.dumps({"results": [{"rounds": rounds}]}).splitlines()
    assert [json.loads(line.strip().rstrip(",")) for line in lines if "seconds" in line] == rounds


def test_the_rounds_of_a_figure_share_one_line():
    assert '"reads_per_second": [1.0, 2.0, 3.0]' in raw_results.dumps({"results": [{"reads_per_second": [1.0, 2.0, 3.0]}]})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_results_in_the_tree_have_this_form(path):
    text = raw_results.text(path)
    assert text == raw_results.dumps(json.loads(text))


def test_long_results_are_compressed(tmp_path):
    short, long = {"results": ["a"]}, {"results": ["a" * raw_results.TEXT_BYTES_MAX]}
    for value, name in [(short, "stalls.json"), (long, "stalls.json.gz"), (short, "stalls.json")]:
        path = raw_results.write(tmp_path / "stalls.json", value)
        assert [path] == list(tmp_path.iterdir()) == [tmp_path / name]
        assert raw_results.read(path) == value
        assert raw_results.path(tmp_path, "stalls") == path and raw_results.paths(tmp_path) == {"stalls": path}


def test_the_same_results_make_the_same_file(tmp_path):
    value = {"results": ["a" * raw_results.TEXT_BYTES_MAX]}
    files = [raw_results.write(tmp_path / name, value) for name in ("one.json", "other.json")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_part_without_a_file_has_no_results(tmp_path):
    assert raw_results.path(tmp_path, "stalls") is None and raw_results.paths(tmp_path) == {}
