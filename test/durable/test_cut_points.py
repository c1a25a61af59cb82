"""A power cut at any step of the log, of a snapshot or of a recovery loses no acknowledged write."""

from __future__ import annotations

import pytest

import cut_points
import stores

LOAD_S = 1.5
# Several of the syncs that `everysec` makes.
LOAD_EVERYSEC_S = 4.0
SCENARIOS = {"first-life": cut_points.record_first_life, "later-life": cut_points.record_later_life}
PLANTED = ("no-sync", "late-sync", "no-directory", "no-checksum")
PLANTED_CUTS = 300


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_power_cut_loses_no_acknowledged_write(request, scenario, store_class, seed, figures, fast_directory):
    is_strict = request.config.getoption("--posix")
    figures["disk model"] = "POSIX" if is_strict else "journal"
    recording = SCENARIOS[scenario](store_class(fast_directory / "data"), seed, fast_directory, LOAD_S, is_strict)
    cutter = cut_points.Cutter(recording, store_class, seed, fast_directory, f"cut-{scenario}")
    cutter.run(request.config.getoption("--cuts"), figures)


def test_a_power_cut_with_everysec_loses_only_what_came_after_the_last_sync(request, store_class, seed, figures, fast_directory):
    if store_class.kind != "todana":
        pytest.skip("this scenario knows the names of Todana's files")
    is_strict = request.config.getoption("--posix")
    figures["disk model"] = "POSIX" if is_strict else "journal"
    everysec = stores.with_mode(store_class, "everysec")
    recording = cut_points.record_first_life(everysec(fast_directory / "data"), seed, fast_directory, LOAD_EVERYSEC_S, is_strict)
    cutter = cut_points.Cutter(recording, everysec, seed, fast_directory, "cut-everysec", cut_points.synced_second())
    cutter.run(request.config.getoption("--cuts"), figures)


@pytest.mark.faults
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault, seed, figures, fast_directory, monkeypatch, tmp_path):
    monkeypatch.setattr(cut_points, "FAULTS", tmp_path)
    store = stores.Toy(fast_directory / "data", [f"--{fault}"])
    recording = cut_points.record_first_life(store, seed, fast_directory, LOAD_S, strict=True)
    cutter = cut_points.Cutter(recording, lambda path: stores.Toy(path, [f"--{fault}"]), seed, fast_directory, f"planted-{fault}")
    with pytest.raises(AssertionError, match="no prefix of|has ended"):
        cutter.run(PLANTED_CUTS, figures)


@pytest.mark.faults
def test_a_store_that_syncs_before_it_replies_passes(seed, figures, fast_directory):
    recording = cut_points.record_first_life(stores.Toy(fast_directory / "data"), seed, fast_directory, LOAD_S, strict=True)
    cut_points.Cutter(recording, stores.Toy, seed, fast_directory, "cut-toy").run(PLANTED_CUTS, figures)
