"""Proximal Policy Optimization (Schulman et al., 2017, arXiv:1707.06347).

advantage  A   = GAE(γ, λ) of V, standardised over the batch
actor      ρ   = π(a|s) / π_old(a|s)
           L_π = −E[min(ρ A, clip(ρ, 1 − ε, 1 + ε) A)] − c_H E[H(π(·|s))]
critic     L_V = E[(V(s) − R)²],  R = A + V(s)

Both descend on shuffled minibatches; π's steps stop when KL(π_old ‖ π) > 1.5 target_kl.
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
    """GAE lambda: 0 uses one-step TD errors, 1 Monte Carlo returns."""
    clip_ratio: Positive = 0.2
    """Clip range of probability ratios: [1 - this, 1 + this]."""
    pi_lr: Positive = 3e-4
    """Learning rate of the policy."""
    vf_lr: Positive = 3e-4
    """Learning rate of the value function."""
    lr_decay: Fraction = 1.0
    """Fraction by which learning rates decay linearly over the run."""
    total_updates: Limit = float("inf")
    """Updates in the whole run, for lr_decay; inf disables the decay."""
    train_pi_iters: Count = 10
    """Passes over the rollout that train the policy."""
    train_v_iters: Count = 10
    """Passes over the rollout that train the value function."""
    minibatches: Size = 32
    """Minibatches per pass, 1 for full-batch steps; leftover steps are dropped."""
    refresh_advantages: bool = True
    """Recompute advantages with the current critic before each pass."""
    target_kl: Limit = float("inf")
    """Stop policy steps when KL > 1.5 x this; inf disables."""
    entropy_coef: NonNegative = 0.0
    """Weight of the entropy bonus; 0 disables."""
    max_grad_norm: Limit = 0.5
    """Maximum norm of a network's gradient, longer ones are clipped; inf disables."""
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
    """The initial state for environments like `spec`."""
    checks.spec(spec, "ppo", needs="any")
    cfg = checks.config(config, Config)
    networks = nets.check(networks or nets.actor_critic_networks(spec, cfg))
    nets_key, shuffle_key = jax.random.split(key)
    actor, critic = nets.init_actor_critic(networks, nets_key, spec)
    return State(
        actor=optim.create(actor, optim.clipped_adam(cfg.pi_lr, cfg.max_grad_norm)),
        critic=optim.create(critic, optim.clipped_adam(cfg.vf_lr, cfg.max_grad_norm)),
        obs_norm=normalize.initial(spec, cfg),
        return_norm=normalize.Moments.zero() if cfg.normalize_returns else None,
        updates=jnp.zeros((), int),
        key=shuffle_key,
        config=cfg,
        networks=networks,
    )


def act(state: State, obs: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """A sample of π with a key, its mode without."""
    norm_obs = normalize.normalize_obs(state.obs_norm, obs)
    dist = state.networks.actor.apply(state.actor.params, norm_obs)
    return dist.mode() if key is None else dist.sample(key)


class Sample(NamedTuple):
    """The inputs of the losses, for a rollout [T, N] or a minibatch of it."""

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
    ratio = jnp.exp(new.log_prob(sample.action) - sample.old.log_prob(sample.action))
    clipped = ratio.clip(1 - cfg.clip_ratio, 1 + cfg.clip_ratio)
    gain = jnp.minimum(ratio * sample.advantage, clipped * sample.advantage).mean()
    entropy, kl = new.entropy().mean(), sample.old.kl(new).mean()
    clip_frac = jnp.mean(ratio != clipped, dtype=float)
    info = {"LossPi": -gain, "Entropy": entropy, "KL": kl, "ClipFrac": clip_frac}
    return -gain - cfg.entropy_coef * entropy, info


def optimize(
    state: State, rollout: Transition, sample: Sample, key: jax.Array, pmean: Pmean
) -> tuple[State, Metrics]:
    """All passes over the rollout; each minibatch is one step of both networks."""
    cfg, networks = state.config, state.networks
    decay = 1 - cfg.lr_decay * jnp.minimum(state.updates / cfg.total_updates, 1)
    pi_tx = optim.clipped_adam(cfg.pi_lr * decay, cfg.max_grad_norm)
    v_tx = optim.clipped_adam(cfg.vf_lr * decay, cfg.max_grad_norm)

    def one_pass(carry: Any, i: jax.Array) -> tuple[Any, jax.Array]:
        (state, policy_active), current = carry, sample
        if cfg.refresh_advantages:
            targets = critics.estimate(state, rollout).targets(state.return_norm, pmean)
            current = Sample(*sample[:3], *targets)
        parts = replay.minibatches(current, cfg.minibatches, jax.random.fold_in(key, i))
        value_active = i < cfg.train_v_iters

        def one_step(carry: Any, part: Sample) -> tuple[Any, jax.Array]:
            state, policy_active = carry
            pi_data = (actor_loss, part, networks, cfg)
            v_data = (critics.value_loss, part.obs, part.target, networks.critic)
            pi = optim.masked_grad(state.actor, *pi_data, active=policy_active)
            v = optim.masked_grad(state.critic, *v_data, active=value_active)
            (pi_grads, info), (v_grads, _) = pmean((pi, v))  # in one communication
            policy_active &= info["KL"] <= 1.5 * cfg.target_kl
            actor = optim.masked_step(state.actor, pi_tx, pi_grads, policy_active)
            critic = optim.masked_step(state.critic, v_tx, v_grads, value_active)
            state = dataclasses.replace(state, actor=actor, critic=critic)
            return (state, policy_active), policy_active

        policy_active &= i < cfg.train_pi_iters
        return jax.lax.scan(one_step, (state, policy_active), parts)

    passes = jnp.arange(max(cfg.train_pi_iters, cfg.train_v_iters))
    (state, _), policy_steps = jax.lax.scan(one_pass, (state, jnp.array(True)), passes)
    return state, {"StopIter": policy_steps.sum(), "LearningRate": cfg.pi_lr * decay}


def update(
    state: State, batch: Transition, pmean: Pmean = identity
) -> tuple[State, Metrics]:
    """Several passes of minibatch steps on both networks, from a rollout [T, N]."""
    checks.batch(batch, "ppo", ("T", "N"))
    key, shuffle_key = jax.random.split(state.key)
    rollout = normalize.normalize_batch(state.obs_norm, batch)
    old = state.networks.actor.apply(state.actor.params, rollout.obs)
    estimate = critics.estimate(state, rollout)
    start = dataclasses.replace(
        state,
        obs_norm=normalize.merge(state.obs_norm, batch.obs, pmean),
        return_norm=normalize.merge(state.return_norm, estimate.returns, pmean),
        key=key,
    )
    targets = estimate.targets(start.return_norm, pmean)
    sample = Sample(rollout.obs, rollout.action, old, *targets)
    end, info = optimize(start, rollout, sample, shuffle_key, pmean)
    data = (sample, state.networks, state.config)
    (_, before), (_, after) = (actor_loss(s.actor.params, *data) for s in (start, end))
    info |= after | {name: before[name] for name in ("LossPi", "Entropy")}
    info |= {"DeltaLossPi": after["LossPi"] - before["LossPi"]} | estimate.metrics()
    v_data = (sample.obs, sample.target, state.networks.critic)
    info |= critics.value_loss_metrics(start.critic, end.critic, *v_data)
    return dataclasses.replace(end, updates=state.updates + 1), info
