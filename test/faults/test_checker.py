"""The checker accepts what a correct store may answer and rejects known faults. Its tests are in Go, beside it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import run


def go(*words):
    """Runs Go's tool in the checker's directory."""
    done = subprocess.run(words, cwd=run.CHECKER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
class TestChecker:
    """What its own tests say."""

    def test_known_histories(self):
        go("go", "test", "./...")

    def test_style(self):
        assert go("gofmt", "-l", ".") == ""
        go("go", "vet", "./...")
