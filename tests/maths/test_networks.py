"""Default networks and a user's own."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import SPEC, algorithms, fake_batch, is_on_policy, leaves

from jaxrl.algos import ddpg, ppo, sac, td3
from jaxrl.maths import nets, trunks
from jaxrl.maths.distributions import Gaussian, TanhGaussian


class OwnTrunk(nn.Module):
    """A residual network with layer norm, unlike jaxrl's own."""

    out: int

    @nn.compact
    def __call__(self, *inputs):
        x = nn.Dense(8, param_dtype=float)(jnp.concatenate(inputs, axis=-1))
        x = x + nn.silu(nn.LayerNorm(param_dtype=float)(x))
        return nn.Dense(self.out, param_dtype=float)(x)


class OwnCritic(nn.Module):
    @nn.compact
    def __call__(self, *inputs):
        return OwnTrunk(1)(*inputs)[..., 0]


class OwnActor(nn.Module):
    kind: type

    @nn.compact
    def __call__(self, obs):
        if self.kind is jax.Array:
            return jnp.tanh(OwnTrunk(2)(obs))
        mean, log_std = jnp.split(OwnTrunk(4)(obs), 2, axis=-1)
        return self.kind(mean, log_std)


def kind_of(algo):
    if is_on_policy(algo):
        return Gaussian
    return TanhGaussian if algo is sac else jax.Array


@algorithms
def test_a_users_own_modules_are_trained(algo, key):
    own = nets.Networks(OwnActor(kind_of(algo)), OwnCritic())
    state = algo.init(key, SPEC, networks=own)
    batch = fake_batch(algo, key, lead=(32, 2) if is_on_policy(algo) else None)
    after, _ = jax.jit(algo.update)(state, batch)
    for net in ("actor", "critic"):
        before, now = (leaves(getattr(s, net).params) for s in (state, after))
        moved = [not np.array_equal(a, b) for a, b in zip(before, now, strict=True)]
        assert all(moved)
    assert algo.act(after, batch.obs).shape == batch.action.shape


def test_a_default_actor_works_with_a_users_own_critic(key):
    mixed = nets.sac_networks(SPEC, sac.Config())._replace(critic=OwnCritic())
    state = sac.init(key, SPEC, networks=mixed)
    assert isinstance(state.networks.actor, nets.TanhGaussianPolicy)
    jax.jit(sac.update)(state, fake_batch(sac, key))


@pytest.mark.parametrize("algo", [ppo, ddpg, td3, sac])
def test_an_actor_of_the_wrong_output_type_is_rejected(algo, key):
    wrong = jax.Array if is_on_policy(algo) else Gaussian
    own = nets.Networks(OwnActor(wrong), OwnCritic())
    with pytest.raises(ValueError, match="OwnActor"):
        algo.init(key, SPEC, networks=own)


def test_a_critic_that_keeps_its_last_axis_is_rejected(key):
    default = nets.sac_networks(SPEC, sac.Config())
    with pytest.raises(ValueError, match=r"critic OwnTrunk.*\[\.\.\., 0\]"):
        sac.init(key, SPEC, networks=default._replace(critic=OwnTrunk(1)))


class Flat(nn.Module):
    """Works for one leading axis only."""

    @nn.compact
    def __call__(self, obs, action):
        return OwnTrunk(1)(obs, action)[:, 0]


class Lists(nn.Module):
    sizes: list

    @nn.compact
    def __call__(self, obs, action):
        return OwnTrunk(1)(obs, action)[..., 0]


class Dropping(nn.Module):
    @nn.compact
    def __call__(self, obs, action):
        x = nn.Dropout(0.5, deterministic=False)(obs)
        return OwnTrunk(1)(x, action)[..., 0]


class OnlyObs(nn.Module):
    @nn.compact
    def __call__(self, obs):
        return OwnTrunk(1)(obs)[..., 0]


@pytest.mark.parametrize(
    ("critic", "words"),
    [
        (Flat(), "critic Flat"),
        (Lists([1, 2]), "tuples"),
        (Dropping(), "Dropping"),
        (OnlyObs(), "OnlyObs"),
        (OwnCritic, "instance .*Linen"),
        (None, "instance .*Linen"),
    ],
    ids=["flat", "lists", "dropout", "one input", "class", "none"],
)
def test_an_unsuitable_critic_is_rejected_in_one_line(critic, words, key):
    default = nets.sac_networks(SPEC, sac.Config())
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        sac.init(key, SPEC, networks=default._replace(critic=critic))
    assert "\n" not in str(caught.value)


def test_a_plain_tuple_of_networks_is_rejected(key):
    pair = tuple(nets.sac_networks(SPEC, sac.Config()))
    with pytest.raises(TypeError, match="Networks"):
        sac.init(key, SPEC, networks=pair)


def test_a_module_with_state_is_rejected(key):
    class Normed(nn.Module):
        @nn.compact
        def __call__(self, obs, action):
            x = jnp.concatenate([obs, action], axis=-1)
            return nn.BatchNorm(use_running_average=True)(x)[..., 0]

    default = nets.sac_networks(SPEC, sac.Config())
    with pytest.raises(ValueError, match=r"batch_stats.*LayerNorm"):
        sac.init(key, SPEC, networks=default._replace(critic=Normed()))


def test_networks_have_the_hidden_widths_and_activation_of_the_config(key):
    state = sac.init(key, SPEC, sac.Config(hidden=(5, 7), activation="tanh"))
    layers = state.critic.params[0]["params"]["trunk"]
    shapes = [layers[f"Dense_{i}"]["kernel"].shape for i in range(3)]
    assert shapes == [(5, 5), (5, 7), (7, 1)]  # 3 of obs and 2 of action go in
    assert state.networks.critic.trunk.activation == "tanh"


def test_orthogonal_initialization_gives_a_nearly_uniform_policy(key):
    state = ppo.init(key, SPEC)
    obs = jax.random.normal(key, (100, 3))
    dist = state.networks.actor.apply(state.actor.params, obs)
    assert np.abs(dist.mean).max() < 0.05
    np.testing.assert_allclose(dist.log_std, -0.5)
    kernel = state.actor.params["params"]["mean"]["Dense_1"]["kernel"]
    np.testing.assert_allclose(kernel.T @ kernel, 2 * np.eye(64), atol=1e-4)


def test_uniform_layers_start_as_pytorch_s_do(key):
    layer = sac.init(key, SPEC).actor.params["params"]["trunk"]["Dense_1"]
    for values, tolerance in ((layer["kernel"], 0.02), (layer["bias"], 0.1)):
        assert 0.95 / 16 < np.abs(values).max() <= 1 / 16
        np.testing.assert_allclose(values.std(), 1 / 16 / np.sqrt(3), rtol=tolerance)


def test_critics_of_an_ensemble_start_with_different_weights(key):
    first, second = sac.init(key, SPEC).critic.params
    assert not np.array_equal(leaves(first)[1], leaves(second)[1])


def test_orthogonal_weights_of_several_seeds_are_those_of_each(key):
    """One after the other: XLA's decomposition of several matrices can deadlock."""
    init = trunks.orthogonal(1.4)
    keys = jax.random.split(key, 3)
    together = jax.vmap(lambda key: init(key, (8, 8)))
    assert "scan" in str(jax.make_jaxpr(together)(keys))
    for one, seed in zip(together(keys), keys, strict=True):
        np.testing.assert_array_equal(one, init(seed, (8, 8)))
