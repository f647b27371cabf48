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
    actor = nets.actor_critic_networks(
        spec, ppo.Config(hidden=(4,), initializer="uniform")
    ).actor
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


def test_conjugate_gradients_of_zero_are_zero():
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


def test_clipped_adam_equals_adam_on_clipped_gradients():
    # Adam's first step does not depend on the gradient's norm; its second does. The
    # norm is over all leaves: (3, 4) has 5 and is clipped, (0.3, 0.4) is not.
    long, short, clipped = (3.0, 4.0), (0.3, 0.4), (0.6, 0.8)
    got = adam_path(optim.clipped_adam(0.1, 1.0), [long, short])
    want = adam_path(optax.adam(0.1), [clipped, short])
    unclipped = adam_path(optax.adam(0.1), [long, short])
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert np.abs(got[1] - unclipped[1]).min() > 1e-3


def test_clipped_adam_with_an_infinite_norm_equals_adam():
    gradients = [(3000.0, 4000.0), (0.0, 0.4), (0.0, 0.0)]
    got = adam_path(optim.clipped_adam(0.1, float("inf")), gradients)
    want = adam_path(optax.adam(0.1), gradients)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_clipped_adam_accepts_traced_settings():
    def step(lr: jax.Array, norm: jax.Array) -> jax.Array:
        tx, grad = optim.clipped_adam(lr, norm), jnp.ones(1)
        return tx.update(grad, tx.init(grad))[0]

    # Adam's first step is the learning rate, whatever the gradient.
    got = jax.vmap(step)(jnp.array([0.1, 0.2]), jnp.array([1.0, jnp.inf]))
    np.testing.assert_allclose(got, [[-0.1], [-0.2]], rtol=1e-5)


def pull(params: jax.Array, part: jax.Array, weight: float = 1.0) -> tuple:
    """½ w (θ − part)², whose gradient is w (θ − part); the aux is the distance."""
    distance = params - part
    return 0.5 * weight * distance**2, jnp.abs(distance)


def test_descend_makes_one_step_and_returns_the_aux():
    net = optim.create(jnp.array(1.0), HALF)
    moved, distance = optim.descend(net, HALF, pull, 3.0, 0.5, pmean=identity)
    # gradient 0.5·(1 − 3) = −1, so θ = 1 + 0.5·1; the aux is of the old θ, |1 − 3|
    np.testing.assert_allclose(moved.params, 1.5)
    np.testing.assert_allclose(distance, 2.0)


def test_descend_keeps_the_optimisers_state():
    tx = optax.sgd(0.5, momentum=0.5)
    net = optim.create(jnp.array(0.0), tx)
    for _ in range(2):
        net, _ = optim.descend(net, tx, pull, 4.0, pmean=identity)
    # gradient −4: trace −4, θ = 2;  gradient −2: trace −2 + 0.5·(−4) = −4, θ = 4
    np.testing.assert_allclose(net.params, 4.0)


def test_learners_step_along_the_mean_of_their_gradients():
    net = optim.create(jnp.array(1.0), HALF)

    def step(part: jax.Array) -> jax.Array:
        return optim.descend(net, HALF, pull, part, pmean=pmean)[0].params

    got = jax.vmap(step, axis_name="learner")(jnp.array([3.0, 7.0]))
    # gradients −2 and −6 have the mean −4: both move to 1 + 0.5·4
    np.testing.assert_allclose(got, [3.0, 3.0])


def masked_descent(net: optim.Net, tx, part: float, active: bool) -> tuple:
    grad, aux = optim.masked_grad(net, pull, part, active=jnp.array(active))
    return optim.masked_step(net, tx, grad, active=jnp.array(active)), (grad, aux)


def test_an_active_masked_step_equals_a_descent():
    tx = optax.adam(0.1)
    net = optim.create(jnp.array(1.0), tx)
    got, (grad, distance) = masked_descent(net, tx, 4.0, active=True)
    want, aux = optim.descend(net, tx, pull, 4.0, pmean=identity)
    assert (grad, distance) == (-3.0, aux)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_an_inactive_masked_step_leaves_the_net_unchanged():
    tx = optax.adam(0.1)
    net = optim.create(jnp.array(1.0), tx)
    got, grad_and_aux = masked_descent(net, tx, 4.0, active=False)
    assert grad_and_aux == (0.0, 0.0)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(net), strict=True):
        np.testing.assert_array_equal(x, y)
