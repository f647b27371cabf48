"""Policy files: they act as the algorithm does and contain no code."""

import dataclasses
import itertools
import json
import subprocess
import sys
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import algorithms

from jaxrl.algos import ppo, trpo, vpg
from jaxrl.maths import nets
from jaxrl.policy import ACTIVATIONS, HEADS, LOG_STD_RANGE, Activation, Policy
from jaxrl.show import onnx
from jaxrl.training import acting
from jaxrl.types import Box, Discrete, EnvSpec, Image, MultiBinary, MultiDiscrete

ASYMMETRIC = EnvSpec(11, Box((-2.0, -1.0, 0.0), (6.0, 1.0, 1.0)))
# Rounding of float32, in units of the width of the action space.
ROUNDING = 1e-6


def trained(algo, spec, key, **changes):
    """A state with a normaliser of mean 0, 1, 2, ... and standard deviation 2."""
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
def test_a_policy_file_acts_as_the_algorithm_does(algo, key, tmp_path):
    state = trained(algo, ASYMMETRIC, key)
    obs = observations(ASYMMETRIC, key)
    policy = saved(state, ASYMMETRIC, tmp_path / "policy.npz")
    expected = ASYMMETRIC.action.scale(np.asarray(algo.act(state, obs)))
    width = np.subtract(ASYMMETRIC.action.high, ASYMMETRIC.action.low)
    assert np.abs((policy(obs) - expected) / width).max() < ROUNDING
    assert np.ptp(expected, axis=0).min() > 0.01  # not just constants


def test_discrete_actions_start_at_the_spaces_first_action(key, tmp_path):
    spec = EnvSpec(4, Discrete(3, start=5))
    state = trained(ppo, spec, key)
    obs = observations(spec, key)
    policy = saved(state, spec, tmp_path / "policy.npz")
    np.testing.assert_array_equal(policy(obs), np.asarray(ppo.act(state, obs)) + 5)
    assert set(policy(obs)) == {5, 6, 7}
    assert policy(obs[0]) == policy(obs)[0]


@algorithms
def test_a_policy_file_explores_as_in_training(algo, key, tmp_path):
    state = trained(algo, ASYMMETRIC, key)
    policy = saved(state, ASYMMETRIC, tmp_path / "policy.npz")
    obs = np.repeat(observations(ASYMMETRIC, key, 1), 1000, axis=0)
    actions = policy(obs, np.random.default_rng(0))
    original = acting.numpy_policy(state)(obs, np.random.default_rng(0))
    np.testing.assert_allclose(actions, ASYMMETRIC.action.scale(original))
    assert actions.std(axis=0).min() > 0.01


class SmallestDraws(np.random.Generator):
    """An exponential variable in float32 is sometimes exactly 0."""

    def standard_exponential(self, size=None, dtype=np.float64, *_, **__):
        draws = np.ones(size, dtype)
        draws[..., 1] = 0
        return draws


@pytest.mark.filterwarnings("error")
def test_a_draw_of_zero_takes_its_action_without_a_warning(key, tmp_path):
    spec = EnvSpec(4, Discrete(3))
    policy = saved(trained(ppo, spec, key), spec, tmp_path / "policy.npz")
    actions = policy(observations(spec, key), SmallestDraws(np.random.PCG64(0)))
    assert set(actions) == {1}


def test_every_activation_setting_has_a_numpy_function():
    assert set(ACTIVATIONS) == set(typing.get_args(Activation))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_numpy_and_jax_activations_are_equal(activation, key):
    x = np.linspace(-5, 5, 101, dtype=np.float32)[:, None]
    mlp = nets.MLP((4, 1), activation)
    params = mlp.init(key, x)
    layers = [params["params"][f"Dense_{i}"] for i in range(2)]
    arrays = [(np.array(layer["kernel"]), np.array(layer["bias"])) for layer in layers]
    policy = Policy(arrays, activation, "gaussian")
    np.testing.assert_allclose(policy(x), mlp.apply(params, x), atol=1e-6)


@pytest.mark.parametrize(("output", "i"), [(-100.0, 0), (100.0, 1)])
def test_numpy_and_jax_clip_the_log_std_alike(output, i, key):
    bias = np.array([0.0, output], np.float32)  # of the mean and of log σ
    dist = nets.TanhGaussianPolicy(lambda obs: obs).apply({}, bias[None])
    np.testing.assert_array_equal(dist.log_std, [[LOG_STD_RANGE[i]]])
    policy = Policy([(np.zeros((1, 2), np.float32), bias)], "relu", "tanh_gaussian")
    noise = np.random.default_rng(0).standard_normal((9, 1), np.float32)
    got = policy(np.zeros((9, 1)), np.random.default_rng(0))
    expected = np.tanh(np.exp(np.float32(LOG_STD_RANGE[i])) * noise)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


SPACES = {
    "gaussian": Box((-np.inf, 0.0, -2.0), (np.inf, 4.0, 6.0)),
    "tanh_gaussian": ASYMMETRIC.action,
    "deterministic": ASYMMETRIC.action,
    "categorical": Discrete(3, start=5),
    "multi_categorical": MultiDiscrete((2, 3), start=(0, 5)),
    "bernoulli": MultiBinary(3),
}
OUTPUTS = {"tanh_gaussian": 6, "multi_categorical": 5}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_onnx_file_acts_as_the_policy_does(head, activation, tmp_path):
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(0)
    sizes = (11, 16, 16, OUTPUTS.get(head, 3))
    draw = lambda *shape: rng.standard_normal(shape, np.float32) / 3  # noqa: E731
    layers = [(draw(*pair), draw(pair[1])) for pair in itertools.pairwise(sizes)]
    norm = {"mean": draw(11), "std": np.exp(draw(11)), "clip": 2.0}
    norm["nvec"] = getattr(SPACES[head], "nvec", ())
    policy = Policy(layers, activation, head, action=SPACES[head], **norm)
    onnx.save(policy, tmp_path / "policy.onnx")
    obs = rng.standard_normal((1000, 11), np.float32)
    graph = ReferenceEvaluator(str(tmp_path / "policy.onnx"))
    (action,) = graph.run(None, {"obs": obs})
    np.testing.assert_allclose(action, policy(obs), rtol=1e-5, atol=1e-5)
    whole = isinstance(SPACES[head], Discrete | MultiDiscrete | MultiBinary)
    assert action.dtype == (np.int64 if whole else np.float32)
    assert np.ptp(action, axis=0).min() > 0.1


ON_POLICY = pytest.mark.parametrize("algo", [vpg, trpo, ppo])
MULTI = (MultiDiscrete((3, 2), start=(1, 0)), MultiBinary(3))


@ON_POLICY
@pytest.mark.parametrize("action", MULTI, ids=["discrete", "binary"])
def test_a_file_with_several_discrete_actions_acts_as_the_algorithm(
    algo, action, key, tmp_path
):
    spec = EnvSpec(4, action)
    state = trained(algo, spec, key)
    obs = observations(spec, key, 500)
    policy = saved(state, spec, tmp_path / "policy.npz")
    expected = action.scale(np.asarray(algo.act(state, obs)))
    np.testing.assert_array_equal(policy(obs), expected)
    assert len(np.unique(expected, axis=0)) > 1
    # Its samples have the distribution's frequencies.
    rows = np.repeat(obs[:1], 20_000, axis=0)
    drawn = policy(rows, np.random.default_rng(0))
    own = action.scale(np.asarray(algo.act(state, rows, key)))
    np.testing.assert_allclose(drawn.mean(axis=0), own.mean(axis=0), atol=0.02)


IMAGES = [Image((10, 10, 1)), Image((3, 40, 37), channels_first=True)]


@pytest.mark.parametrize("image", IMAGES, ids=["small", "channels first"])
def test_a_policy_of_images_acts_alike_in_jax_numpy_and_onnx(image, key, tmp_path):
    from onnx.reference import ReferenceEvaluator

    spec = EnvSpec(image.size, Box((-2.0, 0.0), (2.0, 4.0)), image)
    state = ppo.init(key, spec, ppo.Config(initializer="uniform"))
    assert state.obs_norm is None  # its encoder scales it
    obs = np.random.default_rng(0).integers(0, 256, (9, image.size)).astype(np.uint8)
    policy = saved(state, spec, tmp_path / "policy.npz")
    assert policy.image == image
    expected = spec.action.scale(np.asarray(ppo.act(state, obs)))
    assert np.ptp(expected, axis=0).min() > 1e-3
    np.testing.assert_allclose(policy(obs), expected, atol=1e-5)
    onnx.save(policy, tmp_path / "policy.onnx")
    graph = ReferenceEvaluator(str(tmp_path / "policy.onnx"))
    (action,) = graph.run(None, {"obs": obs.astype(np.float32)})
    np.testing.assert_allclose(action, expected, atol=1e-5)


def test_infinite_action_bounds_are_saved_and_loaded(key, tmp_path):
    spec = EnvSpec(2, Box((-np.inf, 0.0), (np.inf, 4.0)))
    policy = saved(trained(ppo, spec, key), spec, tmp_path / "policy.npz")
    assert policy.action == spec.action


def test_a_policy_file_holds_arrays_and_json(key, tmp_path):
    state = trained(ppo, ASYMMETRIC, key)
    saved(state, ASYMMETRIC, tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as file:
        assert json.loads(str(file["about"]))["head"] == "gaussian"
        assert file["weight_0"].shape == (11, 64)
        np.testing.assert_allclose(file["std"], 2)


def test_loading_a_policy_imports_neither_jax_nor_gymnasium(key, tmp_path):
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, tmp_path / "policy.npz")
    code = "import sys, numpy as np; from jaxrl.policy import Policy; "
    code += "print(Policy.load(sys.argv[1])(np.zeros(11)).shape); "
    code += "raise SystemExit(bool({'jax', 'flax', 'gymnasium'} & set(sys.modules)))"
    command = [sys.executable, "-c", code, tmp_path / "policy.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "(3,)\n"), done.stderr


def test_observations_of_the_wrong_size_are_rejected(key, tmp_path):
    policy = saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, tmp_path / "policy.npz")
    with pytest.raises(ValueError, match=r"11.*\(3,\)"):
        policy(np.zeros(3))


def damaged(whole):
    """The file truncated, or with one byte inverted, at many positions."""
    yield from (whole[:cut] for cut in range(0, len(whole), 97))
    for i in range(200, len(whole), 211):
        yield whole[:i] + bytes([whole[i] ^ 255]) + whole[i + 1 :]


def test_a_damaged_file_is_rejected_or_loads_the_same_policy(key, tmp_path):
    path = tmp_path / "policy.npz"
    whole = saved(trained(ppo, ASYMMETRIC, key, hidden=(4,)), ASYMMETRIC, path)
    rejected = 0
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        try:
            policy = Policy.load(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            rejected += 1
            continue
        # Some bytes of a zip file are not used.
        np.testing.assert_array_equal(policy(np.ones(11)), whole(np.ones(11)))
    assert rejected > 20


@pytest.mark.parametrize("weight", [np.nan, np.inf, 1j])
def test_weights_that_are_not_finite_numbers_are_rejected(key, tmp_path, weight):
    path = tmp_path / "policy.npz"
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, path)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | {"weight_0": arrays["weight_0"] * weight})
    with pytest.raises(ValueError, match="damaged"):
        Policy.load(path)


def test_a_file_that_unzips_to_too_many_bytes_is_rejected(key, tmp_path, monkeypatch):
    path = tmp_path / "policy.npz"
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, path)
    with np.load(path) as archive:
        arrays = dict(archive)
    monkeypatch.setattr("jaxrl.policy.MAX_BYTES", 10**6)
    np.savez_compressed(path, **arrays | {"log_std": np.zeros(10**6)})
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match="damaged"):
        Policy.load(path)


def test_a_pickled_array_is_rejected(tmp_path):
    pickled = np.array([{"anything": "at all"}], dtype=object)
    np.savez(tmp_path / "policy.npz", about=pickled, allow_pickle=True)
    with pytest.raises(ValueError, match="damaged"):
        Policy.load(tmp_path / "policy.npz")
    with pytest.raises(FileNotFoundError):
        Policy.load(tmp_path / "none.npz")


def test_a_policy_file_of_a_newer_version_is_rejected(key, tmp_path):
    path = tmp_path / "policy.npz"
    saved(trained(ppo, ASYMMETRIC, key), ASYMMETRIC, path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays.pop("about")))
    for change in ({"format": 2}, {"head": "_init__"}, {"activation": "new"}):
        np.savez(path, about=np.array(json.dumps(about | change)), **arrays)
        with pytest.raises(ValueError, match="newer"):
            Policy.load(path)
