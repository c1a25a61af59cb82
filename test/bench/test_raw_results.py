"""Raw results as JSON: one round per line, and nothing lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import raw_results  # noqa: E402

FILES = sorted((ROOT / "bench" / "results").rglob("*.json"))


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
    text = path.read_text()
    assert text == raw_results.dumps(json.loads(text))
