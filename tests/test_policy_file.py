"""A policy as a file: equal to the algorithm's, and nothing in it that could run."""

import dataclasses
import itertools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import algorithms

from jaxrl.algos import ppo
from jaxrl.policy import ACTIVATIONS, HEADS, Policy
from jaxrl.show import onnx
from jaxrl.training import acting
from jaxrl.types import Box, Discrete, EnvSpec

ASYMMETRIC = EnvSpec(11, Box((-2.0, -1.0, 0.0), (6.0, 1.0, 1.0)))
# Rounding of float32, in units of the width of the action space.
ROUNDING = 1e-6


def trained(algo, spec, key, **changes):
    """A state whose observations have been seen and are not standard."""
    state = algo.init(key, spec, algo.Config(normalize_obs=True, **changes))
    mean, var = jnp.arange(float(spec.obs_size)), jnp.full(spec.obs_size, 4.0)
    norm = state.obs_norm._replace(mean=mean, var=var)
    return dataclasses.replace(state, obs_norm=norm)


def saved(state, spec, path):
    policy = acting.numpy_policy(state)
    policy.action = spec.action
    policy.save(path)
    return Policy.load(path)


def observations(spec, key, count=10_000):
    scale = 3 * jax.random.normal(key, (count, spec.obs_size))
    return np.asarray(scale + np.arange(spec.obs_size, dtype=np.float32)[None])


@algorithms
def test_the_file_acts_as_the_algorithm_does(algo, key, tmp_path):
    state = trained(algo, ASYMMETRIC, key)
    obs = observations(ASYMMETRIC, key)
    policy = saved(state, ASYMMETRIC, tmp_path / "policy.npz")
    due = ASYMMETRIC.action.scale(np.asarray(algo.act(state, obs)))
    width = np.subtract(ASYMMETRIC.action.high, ASYMMETRIC.action.low)
    assert np.abs((policy(obs) - due) / width).max() < ROUNDING
    assert np.ptp(due, axis=0).min() > 0.01  # or the comparison would be of constants


def test_discrete_actions_begin_where_the_environments_do(key, tmp_path):
    spec = EnvSpec(4, Discrete(3, start=5))
    state = trained(ppo, spec, key)
    obs = observations(spec, key)
    policy = saved(state, spec, tmp_path / "policy.npz")
    np.testing.assert_array_equal(policy(obs), np.asarray(ppo.act(state, obs)) + 5)
    assert set(policy(obs)) == {5, 6, 7}
    assert policy(obs[0]) == policy(obs)[0]


@algorithms
def test_the_file_explores_as_in_training(algo, key, tmp_path):
    state = trained(algo, ASYMMETRIC, key)
    policy = saved(state, ASYMMETRIC, tmp_path / "policy.npz")
    obs = np.repeat(observations(ASYMMETRIC, key, 1), 1000, axis=0)
    actions = policy(obs, np.random.default_rng(0))
    original = acting.numpy_policy(state)(obs, np.random.default_rng(0))
    np.testing.assert_allclose(actions, ASYMMETRIC.action.scale(original))
    assert actions.std(axis=0).min() > 0.01


SPACES = {
    "gaussian": Box((-np.inf, 0.0, -2.0), (np.inf, 4.0, 6.0)),
    "tanh_gaussian": ASYMMETRIC.action,
    "deterministic": ASYMMETRIC.action,
    "categorical": Discrete(3, start=5),
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_onnx_acts_alike(head, activation, tmp_path):
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(0)
    sizes = (11, 16, 16, 6 if head == "tanh_gaussian" else 3)
    draw = lambda *shape: rng.standard_normal(shape, np.float32) / 3  # noqa: E731
    layers = [(draw(*pair), draw(pair[1])) for pair in itertools.pairwise(sizes)]
    whitening = {"mean": draw(11), "std": np.exp(draw(11)), "clip": 2.0}
    policy = Policy(layers, activation, head, action=SPACES[head], **whitening)
    onnx.save(policy, tmp_path / "policy.onnx")
    obs = rng.standard_normal((1000, 11), np.float32)
    graph = ReferenceEvaluator(str(tmp_path / "policy.onnx"))
    (action,) = graph.run(None, {"obs": obs})
    np.testing.assert_allclose(action, policy(obs), rtol=1e-5, atol=1e-5)
    assert action.dtype == (np.int64 if head == "categorical" else np.float32)
    assert np.ptp(action, axis=0).min() > 0.1


def test_infinite_bounds_survive(key, tmp_path):
    spec = EnvSpec(2, Box((-np.inf, 0.0), (np.inf, 4.0)))
    policy = saved(trained(ppo, spec, key), spec, tmp_path / "policy.npz")
    assert policy.action == spec.action


def test_the_file_is_arrays_and_json(key, tmp_path):
    state = trained(ppo, ASYMMETRIC, key)
    saved(state, ASYMMETRIC, tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as file:
        assert json.loads(str(file["about"]))["head"] == "gaussian"
        assert file["weight_0"].shape == (11, 64)
        np.testing.assert_allclose(file["std"], 2)


def test_the_loader_needs_only_numpy(key, tmp_path):
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, tmp_path / "policy.npz")
    code = "import sys, numpy as np; from jaxrl.policy import Policy; "
    code += "print(Policy.load(sys.argv[1])(np.zeros(11)).shape); "
    code += "raise SystemExit(bool({'jax', 'flax', 'gymnasium'} & set(sys.modules)))"
    command = [sys.executable, "-c", code, tmp_path / "policy.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "(3,)\n"), done.stderr


def test_observations_of_another_size_are_refused(key, tmp_path):
    policy = saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, tmp_path / "policy.npz")
    with pytest.raises(ValueError, match=r"takes observations \[..., 11\], got \(3,\)"):
        policy(np.zeros(3))


def damaged(whole):
    """The file cut short, and with a byte inverted, at many places."""
    yield from (whole[:cut] for cut in range(0, len(whole), 97))
    for place in range(200, len(whole), 211):
        yield whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]


def test_a_damaged_file_is_refused_or_harmless(key, tmp_path):
    path = tmp_path / "policy.npz"
    whole = saved(trained(ppo, ASYMMETRIC, key, hidden=(4,)), ASYMMETRIC, path)
    sentences = set()
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        try:
            policy = Policy.load(path)
        except ValueError as error:
            sentences.add(str(error))
            continue
        # Some bytes of a zip file mean nothing.
        np.testing.assert_array_equal(policy(np.ones(11)), whole(np.ones(11)))
    assert sentences == {f"{path} holds no policy, or a damaged one"}


@pytest.mark.parametrize("weight", [np.nan, np.inf, 1j])
def test_weights_that_are_no_numbers_are_refused(key, tmp_path, weight):
    path = tmp_path / "policy.npz"
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, path)
    with np.load(path) as held:
        arrays = dict(held)
    np.savez(path, **arrays | {"weight_0": arrays["weight_0"] * weight})
    with pytest.raises(ValueError, match=r"holds no policy, or a damaged one$"):
        Policy.load(path)


def test_a_small_file_cannot_fill_the_memory(key, tmp_path, monkeypatch):
    path = tmp_path / "policy.npz"
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, path)
    with np.load(path) as held:
        arrays = dict(held)
    monkeypatch.setattr("jaxrl.policy.LARGEST", 10**6)
    np.savez_compressed(path, **arrays | {"log_std": np.zeros(10**6)})
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match=r"holds no policy, or a damaged one$"):
        Policy.load(path)


def test_a_pickle_is_not_opened(tmp_path):
    trap = np.array([{"anything": "at all"}], dtype=object)
    np.savez(tmp_path / "policy.npz", about=trap, allow_pickle=True)
    with pytest.raises(ValueError, match=r"holds no policy, or a damaged one$"):
        Policy.load(tmp_path / "policy.npz")
    with pytest.raises(FileNotFoundError):
        Policy.load(tmp_path / "none.npz")


def test_a_policy_of_the_future_is_refused(key, tmp_path):
    path = tmp_path / "policy.npz"
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays.pop("about")))
    for change in ({"format": 2}, {"head": "_init__"}, {"activation": "new"}):
        np.savez(path, about=np.array(json.dumps(about | change)), **arrays)
        with pytest.raises(ValueError, match="a newer jaxrl wrote it"):
            Policy.load(path)
