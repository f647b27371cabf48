"""Proximal Policy Optimization (Schulman et al., 2017, arXiv:1707.06347).

advantage  A   = GAE(γ, λ) of V, standardised over the batch
actor      ρ   = π(a|s) / π_old(a|s)
           L_π = −E[min(ρ A, clip(ρ, 1 − ε, 1 + ε) A)] − c_H E[H(π(·|s))]
critic     L_V = E[(V(s) − R)²],  R = A + V(s)

Both descend over shuffled minibatches in several passes; with one minibatch these are
Spinning Up's full-batch iterations. The policy stops at KL(π_old ‖ π) > 1.5 target_kl.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl import checks, settings
from jaxrl.maths import critics, nets, normalize, optim, replay
from jaxrl.settings import Count, Fraction, Limit, NonNegative, Positive, Size, Widths
from jaxrl.types import EnvSpec, Metrics, OnPolicy, Params, Pmean, Transition, identity

DATA = OnPolicy()


@settings.pytree
class Config:
    gamma: Fraction = 0.99
    """Discount factor."""
    lam: Fraction = 0.95
    """GAE's λ: 0 trusts the critic alone, 1 the rewards alone."""
    clip_ratio: Positive = 0.2
    """How far the ratio of new to old probability may leave 1 and still be rewarded."""
    pi_lr: Positive = 3e-4
    """Learning rate of the policy."""
    vf_lr: Positive = 3e-4
    """Learning rate of the value function."""
    lr_decay: Fraction = 1.0
    """Part of the learning rates that is gone, linearly, after `total_updates`."""
    total_updates: Limit = float("inf")
    """Updates in the whole run, which the decay needs; inf keeps the rates."""
    train_pi_iters: Count = 10
    """Passes over the batch that train the policy."""
    train_v_iters: Count = 10
    """Passes over the batch that train the value function."""
    minibatches: Size = 32
    """Parts of a pass, each one gradient step; a remainder of the steps sits out."""
    refresh_advantages: bool = True
    """Compute advantages anew before each pass, with the critic as it is then."""
    target_kl: Limit = float("inf")
    """KL divergence that the policy should not exceed by half; inf never stops it."""
    entropy_coef: NonNegative = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: Limit = 0.5
    """Norm to which longer gradients are cut; inf cuts none."""
    normalize_obs: bool = True
    """Whiten observations by their running moments."""
    normalize_returns: bool = True
    """Let the value function predict returns on one scale, by their running moments."""
    hidden: Widths = (64, 64)
    """Widths of the hidden layers."""
    activation: nets.Activation = "tanh"
    """What follows each hidden layer."""
    initializer: nets.Initializer = "orthogonal"
    """How weights begin; `orthogonal` also makes the first policy nearly uniform."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    actor: optim.Net
    critic: optim.Net
    obs_norm: normalize.Moments | None
    return_norm: normalize.Moments | None
    updates: jax.Array
    key: jax.Array
    config: Config
    networks: nets.Networks = dataclasses.field(metadata={"static": True})


def init(
    key: jax.Array,
    spec: EnvSpec,
    config: Config = Config(),
    networks: nets.Networks | None = None,
) -> State:
    """A fresh state for environments like `spec`."""
    checks.spec(spec, "ppo", needs="any")
    cfg = checks.config(config, Config)
    networks = nets.check(networks or nets.stochastic(spec, cfg))
    nets_key, shuffle_key = jax.random.split(key)
    actor, critic = nets.init_stochastic(networks, nets_key, spec)
    return State(
        actor=optim.create(actor, optim.clipped_adam(cfg.pi_lr, cfg.max_grad_norm)),
        critic=optim.create(critic, optim.clipped_adam(cfg.vf_lr, cfg.max_grad_norm)),
        obs_norm=normalize.Moments.zero(spec.obs_size) if cfg.normalize_obs else None,
        return_norm=normalize.Moments.zero() if cfg.normalize_returns else None,
        updates=jnp.zeros((), int),
        key=shuffle_key,
        config=cfg,
        networks=networks,
    )


def act(state: State, obs: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """With a key a sample of π, without one its mode."""
    seen = normalize.observation(state.obs_norm, obs)
    dist = state.networks.actor.apply(state.actor.params, seen)
    return dist.mode() if key is None else dist.sample(key)


class Sample(NamedTuple):
    """What the losses read of a rollout, [T, N] or a minibatch of it."""

    obs: jax.Array
    action: jax.Array
    old: Any  # π_old(·|s)
    advantage: jax.Array  # standardised
    target: jax.Array  # of V, on the scale of the network's output


def actor_loss(
    params: Params, sample: Sample, networks: nets.Networks, cfg: Config
) -> tuple[jax.Array, Metrics]:
    """−E[min(ρ A, clip(ρ, 1 − ε, 1 + ε) A)] − c_H E[H(π(·|s))]."""
    new = networks.actor.apply(params, sample.obs)
    log_ratio = new.log_prob(sample.action) - sample.old.log_prob(sample.action)
    ratio = jnp.exp(log_ratio)
    clipped = ratio.clip(1 - cfg.clip_ratio, 1 + cfg.clip_ratio)
    gain = jnp.minimum(ratio * sample.advantage, clipped * sample.advantage).mean()
    entropy = new.entropy().mean()
    return -gain - cfg.entropy_coef * entropy, {
        "LossPi": -gain,
        "Entropy": entropy,
        "KL": sample.old.kl(new).mean(),
        "ClipFrac": jnp.mean(ratio != clipped, dtype=float),
    }


def learn(
    state: State, rollout: Transition, sample: Sample, key: jax.Array, pmean: Pmean
) -> tuple[State, Metrics]:
    """All passes over a rollout, in which both networks descend."""
    cfg, networks = state.config, state.networks
    decay = 1 - cfg.lr_decay * jnp.minimum(state.updates / cfg.total_updates, 1)
    pi_tx = optim.clipped_adam(cfg.pi_lr * decay, cfg.max_grad_norm)
    v_tx = optim.clipped_adam(cfg.vf_lr * decay, cfg.max_grad_norm)

    def one_step(carry: tuple, part: Sample) -> tuple[tuple, jax.Array]:
        actor, critic, going, valuing = carry
        pi = optim.slope(actor, actor_loss, part, networks, cfg, when=going)
        v = optim.slope(critic, critics.value_loss, part, networks.critic, when=valuing)
        # One mean for both, because learners far apart wait for each.
        (pi_grads, info), (v_grads, _) = pmean((pi, v))
        going &= info["KL"] <= 1.5 * cfg.target_kl  # looks before it leaps
        actor = optim.step(actor, pi_tx, pi_grads, when=going)
        critic = optim.step(critic, v_tx, v_grads, when=valuing)
        return (actor, critic, going, valuing), going

    def one_pass(carry: tuple, k: jax.Array) -> tuple[tuple, jax.Array]:
        (state, going), fresh = carry, sample
        if cfg.refresh_advantages:
            judged = critics.evaluate(state, rollout)
            fresh = Sample(*sample[:3], *judged.labels(state.return_norm, pmean))
        parts = replay.minibatches(fresh, cfg.minibatches, jax.random.fold_in(key, k))
        going &= k < cfg.train_pi_iters
        start = (state.actor, state.critic, going, k < cfg.train_v_iters)
        (actor, critic, going, _), made = jax.lax.scan(one_step, start, parts)
        return (dataclasses.replace(state, actor=actor, critic=critic), going), made

    k = jnp.arange(max(cfg.train_pi_iters, cfg.train_v_iters))
    (state, _), made = jax.lax.scan(one_pass, (state, jnp.array(True)), k)
    return state, {"StopIter": made.sum(), "LearningRate": cfg.pi_lr * decay}


def update(
    state: State, batch: Transition, pmean: Pmean = identity
) -> tuple[State, Metrics]:
    """From a rollout [T, N], both networks, pass by pass."""
    checks.batch(batch, "ppo", ("T", "N"))
    key, shuffle_key = jax.random.split(state.key)
    rollout = normalize.observations(state.obs_norm, batch)
    old = state.networks.actor.apply(state.actor.params, rollout.obs)
    judged = critics.evaluate(state, rollout)
    start = dataclasses.replace(
        state,
        obs_norm=normalize.merge(state.obs_norm, batch.obs, pmean),
        return_norm=normalize.merge(state.return_norm, judged.returns, pmean),
        key=key,
    )
    labels = judged.labels(start.return_norm, pmean)
    sample = Sample(rollout.obs, rollout.action, old, *labels)
    end, info = learn(start, rollout, sample, shuffle_key, pmean)
    data = (sample, state.networks, state.config)
    (_, before), (_, after) = (actor_loss(s.actor.params, *data) for s in (start, end))
    info |= after | {name: before[name] for name in ("LossPi", "Entropy")}
    info |= {"DeltaLossPi": after["LossPi"] - before["LossPi"]}
    info |= critics.progress(start.critic, end.critic, sample, state.networks.critic)
    return dataclasses.replace(end, updates=state.updates + 1), info | judged.metrics()
