"""Trust Region Policy Optimization (Schulman et al., 2015, arXiv:1502.05477).

advantage  A   = GAE(γ, λ) of V, standardised over the batch
surrogate  J   = E[π(a|s) / π_old(a|s) · A],  g = ∇J at the old policy
natural    x   = F⁻¹ g by conjugate gradients,  F = ∇² E[KL(π_old ‖ π)] + damping
           step = √(2δ / xᵀFx) · x
search     θ   ← θ + βᵏ · step,  the first k with KL ≤ δ and J no worse; else θ
critic     L_V = E[(V(s) − R)²],  R = A + V(s)       train_v_iters steps

Without the line search it is the natural policy gradient (Kakade, 2001).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from jaxrl import checks, settings
from jaxrl.maths import critics, nets, normalize, optim, replay
from jaxrl.settings import Count, Fraction, NonNegative, Positive, Size, Widths
from jaxrl.types import EnvSpec, Metrics, OnPolicy, Params, Pmean, Transition, identity

DATA = OnPolicy()


@settings.pytree
class Config:
    gamma: Fraction = 0.99
    """Discount factor."""
    lam: Fraction = 0.97
    """GAE lambda: 0 uses one-step TD errors, 1 Monte Carlo returns."""
    delta: Positive = 0.01
    """Maximum mean KL divergence between the old and the new policy."""
    damping_coeff: NonNegative = 0.1
    """Damping: multiple of the identity added to the Fisher matrix."""
    cg_iters: Size = 10
    """Conjugate-gradient iterations."""
    backtrack_iters: Size = 10
    """Step sizes tried by the line search."""
    backtrack_coeff: Fraction = 0.8
    """Factor between successive step sizes of the line search."""
    line_search: bool = True
    """Backtrack to a step within the KL limit; false gives natural policy gradient."""
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
    actor: optim.Net  # opt_state is empty
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
    checks.spec(spec, "trpo", needs="any")
    cfg = checks.config(config, Config)
    networks = nets.check(networks or nets.actor_critic_networks(spec, cfg))
    actor, critic = nets.init_actor_critic(networks, key, spec)
    return State(
        actor=optim.Net(actor, opt_state=()),
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


def surrogate(
    params: Params,
    networks: nets.Networks,
    rollout: Transition,
    old: Any,
    advantage: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """J = E[π(a|s) / π_old(a|s) · A], and E[KL(π_old ‖ π)]; `old` is π_old."""
    new = networks.actor.apply(params, rollout.obs)
    log_ratio = new.log_prob(rollout.action) - old.log_prob(rollout.action)
    return jnp.mean(jnp.exp(log_ratio) * advantage), old.kl(new).mean()


def natural_step(gradient: jax.Array, fisher: Callable, cfg: Config) -> jax.Array:
    """The step along F⁻¹ g whose KL is δ to second order."""

    def damped(v: jax.Array) -> jax.Array:
        return fisher(v) + cfg.damping_coeff * v

    x = optim.conjugate_gradients(damped, gradient, cfg.cg_iters)
    return jnp.sqrt(2 * cfg.delta / (x @ damped(x) + 1e-8)) * x


def line_search(
    theta: jax.Array, step: jax.Array, measure: Callable, cfg: Config, pmean: Pmean
) -> tuple[jax.Array, jax.Array]:
    """The new θ and the number of rejected steps, given `measure(θ) -> (J, KL)`."""
    # All candidates are measured, so that all learners make the same `pmean` calls.
    scales = cfg.backtrack_coeff ** jnp.arange(cfg.backtrack_iters)  # [K]
    candidates = theta[None] + scales[:, None] * step[None]  # [K, params]
    gains, kls = pmean(jax.lax.map(measure, candidates))
    accepted = (kls <= cfg.delta) & (gains >= pmean(measure(theta)[0]))
    first = jnp.argmax(accepted)
    theta = jnp.where(accepted.any(), candidates[first], theta)
    return theta, jnp.where(accepted.any(), first, cfg.backtrack_iters)


def actor_step(
    state: State, rollout: Transition, advantage: jax.Array, pmean: Pmean
) -> tuple[optim.Net, Metrics]:
    """The actor after one natural step, which the line search may shorten."""
    cfg, networks = state.config, state.networks
    theta, unravel = ravel_pytree(state.actor.params)
    old = networks.actor.apply(state.actor.params, rollout.obs)

    def measure(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        return surrogate(unravel(theta), networks, rollout, old, advantage)

    gradient, _ = jax.grad(measure, has_aux=True)(theta)
    fisher = optim.fisher_product(
        lambda theta: networks.actor.apply(unravel(theta), rollout.obs), theta
    )
    step = natural_step(pmean(gradient), lambda v: pmean(fisher(v)), cfg)
    new_theta, rejected = theta + step, jnp.zeros((), int)
    if cfg.line_search:
        new_theta, rejected = line_search(theta, step, measure, cfg, pmean)
    (before, _), (after, kl) = measure(theta), measure(new_theta)
    return optim.Net(unravel(new_theta), opt_state=()), {
        "LossPi": -before,
        "DeltaLossPi": before - after,
        "Entropy": old.entropy().mean(),
        "KL": kl,
        "BacktrackIters": rejected,
    }


def update(
    state: State, batch: Transition, pmean: Pmean = identity
) -> tuple[State, Metrics]:
    """One natural step on the actor, `train_v_iters` on the critic, from [T, N]."""
    checks.batch(batch, "trpo", ("T", "N"))
    cfg, networks = state.config, state.networks
    rollout = normalize.normalize_batch(state.obs_norm, batch)
    estimate = critics.estimate(state, rollout)
    return_norm = normalize.merge(state.return_norm, estimate.returns, pmean)
    targets = estimate.targets(return_norm, pmean)
    rollout, advantage, target = replay.flatten((rollout, *targets))
    actor, actor_info = actor_step(state, rollout, advantage, pmean)
    critic, critic_info = critics.regress(
        state.critic,
        optax.adam(cfg.vf_lr),
        rollout.obs,
        target,
        networks.critic,
        cfg.train_v_iters,
        pmean,
    )
    state = dataclasses.replace(
        state,
        actor=actor,
        critic=critic,
        obs_norm=normalize.merge(state.obs_norm, batch.obs, pmean),
        return_norm=return_norm,
    )
    return state, actor_info | critic_info | estimate.metrics()
