"""Vanilla Policy Gradient (Sutton et al., 2000; with GAE, arXiv:1506.02438).

advantage  A   = GAE(γ, λ) of V, standardised over the batch
actor      L_π = −E[log π(a|s) · A]                  one step
critic     L_V = E[(V(s) − R)²],  R = A + V(s)       train_v_iters steps
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxrl import checks, settings
from jaxrl.maths import critics, nets, normalize, optim, replay
from jaxrl.settings import Count, Fraction, Positive, Widths
from jaxrl.types import EnvSpec, Metrics, OnPolicy, Params, Pmean, Transition, identity

DATA = OnPolicy()


@settings.pytree
class Config:
    gamma: Fraction = 0.99
    """Discount factor."""
    lam: Fraction = 0.97
    """GAE lambda: 0 uses one-step TD errors, 1 Monte Carlo returns."""
    pi_lr: Positive = 1e-3
    """Learning rate of the policy."""
    vf_lr: Positive = 1e-3
    """Learning rate of the value function."""
    train_v_iters: Count = 80
    """Gradient steps on the value function per update."""
    normalize_obs: bool = True
    """Standardize observations by their running mean and variance."""
    normalize_returns: bool = True
    """Standardize the value function's targets by their running mean and variance."""
    hidden: Widths = (64, 64)
    """Widths of the hidden layers."""
    activation: nets.Activation = "tanh"
    """Activation function of the hidden layers."""
    initializer: nets.Initializer = "orthogonal"
    """Weight initialization; orthogonal also starts with a nearly uniform policy."""
    encoder: settings.Encoder = "auto"
    """Network body; auto takes nature_cnn (no hidden) for images, else mlp."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    actor: optim.Net
    critic: optim.Net
    obs_norm: normalize.Moments | None
    return_norm: normalize.Moments | None
    config: Config
    networks: nets.Networks = dataclasses.field(metadata={"static": True})


def init(
    key: jax.Array,
    spec: EnvSpec,
    config: Config = Config(),
    networks: nets.Networks | None = None,
) -> State:
    """The initial state for environments like `spec`."""
    checks.spec(spec, "vpg", needs="any")
    cfg = checks.config(config, Config)
    networks = nets.check(networks or nets.actor_critic_networks(spec, cfg))
    actor, critic = nets.init_actor_critic(networks, key, spec)
    return State(
        actor=optim.create(actor, optax.adam(cfg.pi_lr)),
        critic=optim.create(critic, optax.adam(cfg.vf_lr)),
        obs_norm=normalize.initial(spec, cfg),
        return_norm=normalize.Moments.zero() if cfg.normalize_returns else None,
        config=cfg,
        networks=networks,
    )


def act(state: State, obs: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """A sample of π with a key, its mode without."""
    norm_obs = normalize.normalize_obs(state.obs_norm, obs)
    dist = state.networks.actor.apply(state.actor.params, norm_obs)
    return dist.mode() if key is None else dist.sample(key)


def actor_loss(
    params: Params, networks: nets.Networks, rollout: Transition, advantage: jax.Array
) -> tuple[jax.Array, Any]:
    """−E[log π(a|s) · A]; also returns π."""
    dist = networks.actor.apply(params, rollout.obs)
    return -jnp.mean(dist.log_prob(rollout.action) * advantage), dist


def update(
    state: State, batch: Transition, pmean: Pmean = identity
) -> tuple[State, Metrics]:
    """One step on the actor, `train_v_iters` on the critic, from a rollout [T, N]."""
    checks.batch(batch, "vpg", ("T", "N"))
    cfg, networks = state.config, state.networks
    rollout = normalize.normalize_batch(state.obs_norm, batch)
    estimate = critics.estimate(state, rollout)
    return_norm = normalize.merge(state.return_norm, estimate.returns, pmean)
    targets = estimate.targets(return_norm, pmean)
    rollout, advantage, target = replay.flatten((rollout, *targets))

    data = (networks, rollout, advantage)
    before, old = actor_loss(state.actor.params, *data)
    tx = optax.adam(cfg.pi_lr)
    actor, _ = optim.descend(state.actor, tx, actor_loss, *data, pmean=pmean)
    after, new = actor_loss(actor.params, *data)
    critic, critic_info = critics.regress(
        state.critic,
        optax.adam(cfg.vf_lr),
        rollout.obs,
        target,
        networks.critic,
        cfg.train_v_iters,
        pmean,
    )
    actor_info = {
        "LossPi": before,
        "DeltaLossPi": after - before,
        "Entropy": old.entropy().mean(),
        "KL": old.kl(new).mean(),
    }
    state = dataclasses.replace(
        state,
        actor=actor,
        critic=critic,
        obs_norm=normalize.merge(state.obs_norm, batch.obs, pmean),
        return_norm=return_norm,
    )
    return state, actor_info | critic_info | estimate.metrics()
