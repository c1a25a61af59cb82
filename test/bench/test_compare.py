"""bench/compare: two checkouts, interleaved."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_beside_itself(tmp_path):
    output = tmp_path / "comparison.json"
    command = [sys.executable, ROOT / "bench" / "compare", ROOT, "--quick", "--only", "local", "--only", "ranges", "--output", output]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(output.read_text())
    assert {row["part"] for row in found["results"]} == {"local", "ranges"}
    assert all(row["other"] and row["this"] for row in found["results"])
    assert len(shown.splitlines()) == 1 + len(found["results"])


def test_a_checkout_that_is_not_built_is_named(tmp_path):
    command = [sys.executable, ROOT / "bench" / "compare", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path} is not built" in done.stderr
