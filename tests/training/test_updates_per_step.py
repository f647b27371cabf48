"""`updates_per_step`: the number of gradient steps, counted exactly."""

import contextlib

import jax
import numpy as np
import pytest
from launching import run_of, trained
from small_runs import Killed, always, assert_same, at_step, kill, signalled, train
from support import small_config

import jaxrl
from jaxrl.algos import sac
from jaxrl.envs.jax import PROBES
from jaxrl.runs import checkpoint
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.training import fused
from jaxrl.training.share import Share
from jaxrl.types import OffPolicy


def gradient_steps(state):
    """As Adam counted them."""
    return int(state.critic.opt_state[0].count)


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
@pytest.mark.parametrize("ratio", [0.25, 0.33, 1, 2])
def test_a_run_makes_as_many_gradient_steps_as_asked(tmp_path, algo, ratio):
    # Rounds after 40, 60, 80, 100 and 120 steps, each for 20 steps.
    result = train(tmp_path, algo, "Pendulum-v1", updates_per_step=ratio)
    assert gradient_steps(result.state) == int(round(100 * ratio, 9))


@pytest.mark.parametrize("ratio", [1e-6, 0.1, 1 / 3, 0.5, 0.77, 1.0, 1.01, 2.5, 20.0])
@pytest.mark.parametrize(("ranks", "num_envs", "after"), [(1, 1, 0), (3, 2, 100)])
def test_updates_are_counted_without_drift(ratio, ranks, num_envs, after):
    data = OffPolicy(
        num_envs=num_envs, update_every=7, update_after=after, updates_per_step=ratio
    )
    share = Share(data, 0, ranks)
    ends = range(0, 60_000, share.total_envs)
    at_rounds = range(0, 60_000, share.round_steps)
    rounds = [share.updates_at(steps) for steps in at_rounds]
    others = [share.updates_at(steps) for steps in ends if steps % share.round_steps]
    assert not any(others)
    assert {*rounds} - {0} <= {*share.round_sizes}
    first = max(-(-after // share.round_steps), 1)
    assert not any(rounds[:first])
    for n, total in enumerate(np.cumsum(rounds[first:]), start=1):
        exact = n * share.round_steps * ratio
        assert abs(total - exact) < 1 + 1e-9 * exact
        if round(exact, 6).is_integer():
            assert total == round(exact)


@pytest.mark.parametrize("ratio", [0.03, 0.33, 1.5])
def test_resume_makes_the_same_updates(tmp_path, monkeypatch, ratio):
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    whole = train(tmp_path / "a", "sac", "Pendulum-v1", updates_per_step=ratio)
    for step, happens in (70, kill), (110, signalled):
        out = tmp_path / str(step)
        at_step(monkeypatch, step, happens)
        with contextlib.suppress(Killed):
            train(out, "sac", "Pendulum-v1", updates_per_step=ratio)
        (path,) = out.glob("*/*_s0")
        assert_same(whole, jaxrl.resume(path, screen=False))


def test_an_epoch_without_an_update_has_empty_cells(tmp_path):
    # One update is due after 100 steps: in the second epoch.
    result = train(tmp_path, "sac", "Pendulum-v1", updates_per_step=0.01)
    assert [row["LossQ"] is None for row in result.history] == [True, False]


@pytest.mark.parametrize("ratio", [0.0, -1.0, 1e-7, float("nan"), 1001.0])
def test_a_ratio_outside_of_its_range_is_refused(tmp_path, ratio):
    with pytest.raises(ValueError, match="updates_per_step"):
        train(tmp_path, "sac", "Pendulum-v1", updates_per_step=ratio)
    assert not any(tmp_path.iterdir())


def test_algorithms_without_replay_have_no_such_setting(tmp_path):
    with pytest.raises(ValueError, match="ppo has no setting 'updates_per_step'"):
        train(tmp_path, "ppo", "CartPole-v1", updates_per_step=2)


@pytest.mark.parametrize("ratio", [0.05, 0.15, 0.5, 2.0])
def test_the_fused_loop_counts_as_the_host_does(ratio):
    data = OffPolicy(
        steps_per_epoch=20,
        epochs=6,
        num_envs=2,
        replay_size=64,
        batch_size=8,
        start_steps=10,
        update_after=20,
        update_every=10,
        updates_per_step=ratio,
    )
    share = Share(data)
    expected = sum(share.updates_at(steps) for steps in range(0, 121, 2))
    arguments = sac, PROBES["delayed"], small_config(sac), data
    state, _ = jax.jit(lambda key: fused.train(key, *arguments))(jax.random.key(0))
    assert gradient_steps(state) == expected == int(110 * ratio + 1e-9)


@pytest.mark.mpi
def test_ranks_make_the_same_number_of_updates_together(tmp_path):
    trained(tmp_path, "sac", ranks=2, updates_per_step=0.3, num_envs=1)
    saved, _ = checkpoint.newest(run_of(tmp_path))
    (count,) = (
        x for k, x in saved.content["state"].items() if ".critic" in k and "count" in k
    )
    # Rounds of 8 steps from step 24 to 192.
    assert int(count) == int(22 * 8 * 0.3)
