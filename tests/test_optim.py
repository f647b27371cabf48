"""Steps in parameter space, by hand and against dense linear algebra."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from support import SPEC

from jaxrl.algos import ppo
from jaxrl.maths import nets, optim
from jaxrl.types import Discrete, EnvSpec, identity

SPECS = {"box": SPEC, "discrete": EnvSpec(obs_size=3, action=Discrete(4))}
HALF = optax.sgd(0.5)

pmean = partial(jax.lax.pmean, axis_name="learner")
specs = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())


def flat_policy(spec: EnvSpec, key: jax.Array) -> tuple:
    """A small policy of a vector θ on five observations, and θ."""
    actor = nets.stochastic(spec, ppo.Config(hidden=(4,), initializer="uniform")).actor
    obs_key, params_key = jax.random.split(key)
    obs = jax.random.normal(obs_key, (5, spec.obs_size))
    theta, unravel = ravel_pytree(actor.init(params_key, obs))
    return lambda theta: actor.apply(unravel(theta), obs), theta


def fisher_and_hessian(spec: EnvSpec, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    policy, theta = flat_policy(spec, key)
    old = policy(theta)

    @jax.jit
    def both(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        product = optim.fisher_product(policy, theta)
        hessian = jax.hessian(lambda theta: old.kl(policy(theta)).mean())(theta)
        return jax.vmap(product)(jnp.eye(len(theta))), hessian  # F is symmetric

    return both(theta)


@specs
def test_fisher_product_is_the_hessian_of_the_mean_kl(spec, key):
    with jax.enable_x64(True):
        fisher, hessian = fisher_and_hessian(spec, key)
        assert fisher.dtype == jnp.float64
        np.testing.assert_allclose(fisher, hessian, rtol=1e-8, atol=1e-12)
        assert np.abs(hessian).max() > 0.01


def test_fisher_of_a_gaussians_own_parameters_by_hand():
    def policy(theta: jax.Array) -> nets.Gaussian:
        return nets.Gaussian(theta[None, :1], theta[None, 1:])

    product = optim.fisher_product(policy, jnp.array([3.0, jnp.log(2.0)]))
    # In (μ, log σ) the Fisher information of a normal is diag(1/σ², 2), here (¼, 2).
    np.testing.assert_allclose(product(jnp.array([4.0, 5.0])), [1.0, 10.0], rtol=1e-5)


def positive_definite(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root, b = rng.normal(size=(size, size)), rng.normal(size=size)
    matrix = root @ root.T / size + np.eye(size)
    return matrix.astype(np.float32), b.astype(np.float32)


def conjugate(matrix: np.ndarray, b: np.ndarray, steps: int) -> jax.Array:
    dense = jnp.asarray(matrix)
    return optim.conjugate_gradients(lambda v: dense @ v, jnp.asarray(b), steps)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_conjugate_gradients_solve_linear_systems(seed, scale):
    matrix, b = positive_definite(seed, size=8)
    got = conjugate(matrix, scale * b, steps=8) / scale
    want = np.linalg.solve(matrix.astype(float), b)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_one_conjugate_gradient_step_by_hand():
    # x = (b·b / b·Ab) b = (2/4) b for A = diag(1, 3), b = (1, 1)
    got = conjugate(np.diag([1.0, 3.0]), np.ones(2), steps=1)
    np.testing.assert_allclose(got, [0.5, 0.5])


def test_conjugate_gradients_of_nothing_are_zeros():
    matrix, b = positive_definite(0, size=4)
    np.testing.assert_array_equal(conjugate(matrix, 0 * b, steps=10), np.zeros(4))


@pytest.mark.parametrize("matrix", [np.eye(3), np.diag([1.0, 2.0, 3.0])])
def test_more_conjugate_gradient_steps_than_dimensions_keep_the_solution(matrix):
    got = conjugate(matrix, np.array([1.0, 2.0, 3.0]), steps=50)
    np.testing.assert_allclose(got, np.array([1, 2, 3]) / np.diag(matrix), rtol=1e-5)


def test_polyak_moves_the_target_by_tau():
    target, online = {"w": jnp.array([1.0, 2.0])}, {"w": jnp.array([3.0, -2.0])}
    got = optim.polyak(target, online, 0.25)
    # 0.75·1 + 0.25·3 = 1.5,  0.75·2 − 0.25·2 = 1
    np.testing.assert_allclose(got["w"], [1.5, 1.0])


def adam_path(tx: optax.GradientTransformation, gradients: list) -> np.ndarray:
    """Parameters after each of the gradients, from zero."""
    params = {"w": jnp.zeros(1), "b": jnp.zeros(1)}
    state, path = tx.init(params), []
    update = jax.jit(tx.update)
    for w, b in gradients:
        updates, state = update({"w": jnp.array([w]), "b": jnp.array([b])}, state)
        params = optax.apply_updates(params, updates)
        path.append([params["w"][0], params["b"][0]])
    return np.array(path)


def test_clipped_adam_takes_the_steps_of_the_cut_gradients():
    # Adam's first step hides the length of a gradient; its second shows it. The norm
    # is that of all leaves: (3, 4) has 5 and is cut to (0.6, 0.8), (0.3, 0.4) is not.
    long, short, cut = (3.0, 4.0), (0.3, 0.4), (0.6, 0.8)
    got = adam_path(optim.clipped_adam(0.1, 1.0), [long, short])
    want = adam_path(optax.adam(0.1), [cut, short])
    uncut = adam_path(optax.adam(0.1), [long, short])
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert np.abs(got[1] - uncut[1]).min() > 1e-3


def test_clipped_adam_cuts_nothing_at_infinity():
    gradients = [(3000.0, 4000.0), (0.0, 0.4), (0.0, 0.0)]
    got = adam_path(optim.clipped_adam(0.1, float("inf")), gradients)
    want = adam_path(optax.adam(0.1), gradients)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_clipped_adam_accepts_traced_settings():
    def step(lr: jax.Array, norm: jax.Array) -> jax.Array:
        tx, slope = optim.clipped_adam(lr, norm), jnp.ones(1)
        return tx.update(slope, tx.init(slope))[0]

    # Adam's first step is the learning rate, whatever the slope.
    got = jax.vmap(step)(jnp.array([0.1, 0.2]), jnp.array([1.0, jnp.inf]))
    np.testing.assert_allclose(got, [[-0.1], [-0.2]], rtol=1e-5)


def pull(params: jax.Array, part: jax.Array, weight: float = 1.0) -> tuple:
    """½ w (θ − part)², whose slope is w (θ − part); the aux is the distance."""
    distance = params - part
    return 0.5 * weight * distance**2, jnp.abs(distance)


def test_descend_makes_one_step_and_returns_the_aux():
    net = optim.create(jnp.array(1.0), HALF)
    moved, distance = optim.descend(net, HALF, pull, 3.0, 0.5, pmean=identity)
    # slope 0.5·(1 − 3) = −1, so θ = 1 + 0.5·1; the aux is of the old θ, |1 − 3|
    np.testing.assert_allclose(moved.params, 1.5)
    np.testing.assert_allclose(distance, 2.0)


def test_descend_keeps_the_optimisers_memory():
    tx = optax.sgd(0.5, momentum=0.5)
    net = optim.create(jnp.array(0.0), tx)
    for _ in range(2):
        net, _ = optim.descend(net, tx, pull, 4.0, pmean=identity)
    # slope −4: trace −4, θ = 2;  slope −2: trace −2 + 0.5·(−4) = −4, θ = 4
    np.testing.assert_allclose(net.params, 4.0)


def test_learners_descend_along_the_mean_of_their_gradients():
    net = optim.create(jnp.array(1.0), HALF)

    def learn(part: jax.Array) -> jax.Array:
        return optim.descend(net, HALF, pull, part, pmean=pmean)[0].params

    got = jax.vmap(learn, axis_name="learner")(jnp.array([3.0, 7.0]))
    # slopes −2 and −6 have the mean −4: both stand at 1 + 0.5·4
    np.testing.assert_allclose(got, [3.0, 3.0])


def in_halves(net: optim.Net, tx, part: float, when: bool) -> tuple[optim.Net, tuple]:
    slope = optim.slope(net, pull, part, when=jnp.array(when))
    return optim.step(net, tx, slope[0], when=jnp.array(when)), slope


def test_slope_and_step_are_a_descent():
    tx = optax.adam(0.1)
    net = optim.create(jnp.array(1.0), tx)
    got, (slope, distance) = in_halves(net, tx, 4.0, when=True)
    want, aux = optim.descend(net, tx, pull, 4.0, pmean=identity)
    assert (slope, distance) == (-3.0, aux)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_slope_and_step_leave_a_net_that_may_not_go():
    tx = optax.adam(0.1)
    net = optim.create(jnp.array(1.0), tx)
    got, slope = in_halves(net, tx, 4.0, when=False)
    assert slope == (0.0, 0.0)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(net), strict=True):
        np.testing.assert_array_equal(x, y)
