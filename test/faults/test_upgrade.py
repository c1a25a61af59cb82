"""A cluster under load whose members change their versions one after the other, there and back."""

from __future__ import annotations

import pytest

import cluster as clusters
import run as runs
import served
import upgrade

pytestmark = pytest.mark.faults


@pytest.fixture
def old():
    """The last version that reads the first format of the log only."""
    return upgrade.build(upgrade.FIRST_FORMAT)


@pytest.fixture
def run(old, seed, directory):
    """Three nodes of the old version, and clients."""
    run = runs.Run(directory, seed, guests=0)
    for node in run.cluster.nodes:
        node.version = old
    try:
        run.start()
        yield run
    except BaseException as why:
        print(f"kept in {run.keep(repr(why))}", flush=True)
        raise
    finally:
        run.close()


def change_all(run, version, on_change):
    """Changes all members while clients work; each accepts writes after each step."""
    cluster = run.cluster
    for step, node in enumerate(sorted(cluster.nodes, key=lambda node: node is cluster.leader())):
        run.history.note(fault=f"change {node.number}", number=step)
        upgrade.change(cluster, node, version)
        run.history.note(healed=f"change {node.number}", node=node.number)
        for one in cluster.nodes:
            upgrade.write(one, f"step.{step}")
        on_change(node)
        for client in run.clients:
            if client.failure:
                raise client.failure


def finish(run):
    verdict = run.finish()
    print({name: verdict[name] for name in ("operations", "parts", "unknown", "failed", "outcomes")}, flush=True)
    assert not verdict["complaints"] and not verdict["undecided"], runs.summary(verdict)


def test_members_are_upgraded_and_go_back_one_after_the_other(run, old):
    cluster, now = run.cluster, served.ROOT

    def refuses_new_commands(upgraded):
        is_mixed = any(node.version == old for node in cluster.nodes)
        if is_mixed:
            answer = upgrade.new_command(upgraded)
            assert upgrade.REFUSED in str(answer), f"{upgraded.name}: {answer}"

    change_all(run, now, refuses_new_commands)
    # What the present version notes in the directory, and the old one does not know.
    for node in cluster.nodes:
        upgrade.await_note(node, "cookie_file", clusters.SERVING_TIMEOUT_S)
    # No newer format is in the log, so each member may go back.
    change_all(run, old, lambda _: None)
    change_all(run, now, refuses_new_commands)
    for node in cluster.nodes:
        upgrade.await_new_commands(node, clusters.SERVING_TIMEOUT_S)
    finish(run)


def test_a_member_cannot_go_back_behind_a_newer_format(run, old):
    cluster, now = run.cluster, served.ROOT
    change_all(run, now, lambda _: None)
    for node in cluster.nodes:
        upgrade.await_new_commands(node, clusters.SERVING_TIMEOUT_S)
    # Clients of the member that stops get errors that are a fault everywhere else.
    finish(run)
    node = next(node for node in cluster.nodes if node is not cluster.leader())
    node.stop()
    others = cluster.others(node)
    # The map still has what the member has announced.
    upgrade.await_new_commands(others[0], clusters.SERVING_TIMEOUT_S)
    node.version = old
    node.start()
    upgrade.await_output(node, upgrade.NEWER, clusters.SERVING_TIMEOUT_S)
    # It takes nothing from the others with it.
    for other in others:
        upgrade.write(other, "goes.on")
    node.kill()
    node.version = now
    node.start()
    cluster.wait_for_voters()
    # A new member of the old version would stop in the same way.
    cluster.shrink(node)
    assert others[0].ask("leave", node.name)[0] == "ok"
    late = cluster.node(4)
    late.version, late.peer = old, others[0].name
    late.start()
    assert "reads none newer than 1" in late.sentence()
    late.clean_up()
    new = cluster.node(5)
    new.join(others[0])
    cluster.nodes.append(new)
    cluster.wait_for_voters()
    cluster.verify()
