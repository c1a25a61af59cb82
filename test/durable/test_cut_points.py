"""A power cut at any step of the log, of a snapshot or of a recovery loses no acknowledged write."""

from __future__ import annotations

import pytest

import cut_points
import stores

LOAD_S = 1.5
SCENARIOS = {"first-life": cut_points.record_first_life, "later-life": cut_points.record_later_life}
PLANTED = ("no-sync", "late-sync", "no-directory", "no-checksum")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_power_cut_loses_no_acknowledged_write(request, scenario, store_class, seed, fast_directory):
    is_strict = request.config.getoption("--posix")
    print(f"{scenario}: seed {seed}")
    recording = SCENARIOS[scenario](store_class(fast_directory / "data"), seed, fast_directory, LOAD_S, is_strict)
    cutter = cut_points.Cutter(recording, store_class, seed, fast_directory, f"cut-{scenario}")
    print(cutter.run(request.config.getoption("--cuts")))


@pytest.mark.faults
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault, seed, fast_directory, monkeypatch, tmp_path):
    monkeypatch.setattr(cut_points, "FAULTS", tmp_path)
    print(f"planted-{fault}: seed {seed}")
    store = stores.Toy(fast_directory / "data", [f"--{fault}"])
    recording = cut_points.record_first_life(store, seed, fast_directory, LOAD_S, strict=True)
    cutter = cut_points.Cutter(recording, lambda path: stores.Toy(path, [f"--{fault}"]), seed, fast_directory, f"planted-{fault}")
    with pytest.raises(AssertionError, match="no prefix of|has ended"):
        cutter.run(300)


@pytest.mark.faults
def test_a_store_that_syncs_before_it_replies_passes(seed, fast_directory):
    print(f"toy: seed {seed}")
    recording = cut_points.record_first_life(stores.Toy(fast_directory / "data"), seed, fast_directory, LOAD_S, strict=True)
    print(cut_points.Cutter(recording, stores.Toy, seed, fast_directory, "cut-toy").run(300))
