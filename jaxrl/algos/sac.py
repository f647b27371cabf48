"""Soft Actor-Critic (Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905).

target   y   = r + γ (1 − d) [minⱼ Q̄ⱼ(s′, a′) − α log π(a′|s′)],  a′ ~ π(·|s′)
critic   L_Q = Σⱼ E[(Qⱼ(s, a) − y)²]
actor    L_π = E[α log π(a|s) − minⱼ Qⱼ(s, a)],                    a ~ π(·|s)
entropy  L_α = −E[log α · (log π(a|s) + H̄)],                       H̄ = −h dim(a)
polyak   θ̄   ← (1 − τ) θ̄ + τ θ,  of the critics
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxrl import checks, settings
from jaxrl.maths import critics, nets, noise, normalize, optim
from jaxrl.maths.distributions import TanhGaussian
from jaxrl.settings import Ensemble, Fraction, NonNegative, Positive, Widths
from jaxrl.types import EnvSpec, Metrics, OffPolicy, Params, Pmean, Transition, identity

DATA = OffPolicy()


@settings.pytree
class Config:
    gamma: Fraction = 0.99
    """Discount factor."""
    tau: Fraction = 0.005
    """Fraction by which target critics move towards the critics per update."""
    lr: Positive = 1e-3
    """Learning rate of policy, critics and temperature."""
    alpha: Positive = 1.0
    """Weight of the entropy (temperature); the initial value if learn_alpha."""
    learn_alpha: bool = True
    """Adapt the temperature so that the policy's entropy approaches its target."""
    target_entropy: NonNegative = 1.0
    """The entropy's target is minus this times the number of action dimensions."""
    num_critics: Ensemble = 2
    """Number of critics; targets use their minimum."""
    normalize_obs: bool = False
    """Standardize observations by their running mean and variance."""
    hidden: Widths = (256, 256)
    """Widths of the hidden layers."""
    activation: nets.Activation = "relu"
    """Activation function of the hidden layers."""
    initializer: nets.Initializer = "uniform"
    """Weight initialization."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    actor: optim.Net
    critic: optim.Net
    target: tuple[Params, ...]  # of the critics
    log_alpha: optim.Net
    obs_norm: normalize.Moments | None
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
    checks.spec(spec, "sac", needs="bounded")
    cfg = checks.config(config, Config)
    networks = nets.check(networks or nets.sac_networks(spec, cfg))
    nets_key, noise_key = jax.random.split(key)
    actor, critic = critics.init_with_actor(
        networks, cfg.num_critics, spec, TanhGaussian, nets_key
    )
    tx = optax.adam(cfg.lr)
    return State(
        actor=optim.create(actor, tx),
        critic=optim.create(critic, tx),
        target=jax.tree.map(jnp.copy, critic),
        log_alpha=optim.create(jnp.log(cfg.alpha), tx),
        obs_norm=normalize.Moments.zero(spec.obs_size) if cfg.normalize_obs else None,
        key=noise_key,
        config=cfg,
        networks=networks,
    )


def act(state: State, obs: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """A sample of π with a key, the tanh of its mean without."""
    norm_obs = normalize.normalize_obs(state.obs_norm, obs)
    dist = state.networks.actor.apply(state.actor.params, norm_obs)
    return dist.mode() if key is None else dist.sample(key)


def target(
    state: State, batch: Transition, draws: Float[Array, "batch action"]
) -> Float[Array, " batch"]:
    """The soft Bellman target y; a constant of the critics' loss."""
    dist = state.networks.actor.apply(state.actor.params, batch.next_obs)
    action, log_prob = dist.reparameterize(draws)
    q = critics.q(state.target, state.networks.critic, batch.next_obs, action)
    soft_value = q.min(axis=0) - jnp.exp(state.log_alpha.params) * log_prob  # [B]
    return critics.bellman(batch, soft_value, state.config.gamma)


def actor_loss(
    params: Params,
    critic: tuple[Params, ...],
    log_alpha: jax.Array,
    batch: Transition,
    draws: Float[Array, "batch action"],
    networks: nets.Networks,
) -> tuple[jax.Array, Metrics]:
    """E[α log π(a|s) − minⱼ Qⱼ(s, a)], with a made from the standard normal `draws`."""
    dist = networks.actor.apply(params, batch.obs)
    action, log_prob = dist.reparameterize(draws)
    q = critics.q(critic, networks.critic, batch.obs, action).min(axis=0)  # [B]
    loss = jnp.mean(jnp.exp(log_alpha) * log_prob - q)
    return loss, {"LossPi": loss, "LogPi": log_prob}


def entropy_loss(
    log_alpha: jax.Array, log_prob: Float[Array, " batch"], goal: jax.Array
) -> tuple[jax.Array, Metrics]:
    """−E[log α · (log π(a|s) + H̄)], with H̄ = `goal`."""
    loss = -jnp.mean(log_alpha * (log_prob + goal))
    return loss, {"LossAlpha": loss, "Alpha": jnp.exp(log_alpha)}


def update(
    state: State, batch: Transition, pmean: Pmean = identity
) -> tuple[State, Metrics]:
    """One gradient step on the critics, the actor and the temperature, from [B]."""
    checks.batch(batch, "sac", ("B",))
    cfg, networks, tx = state.config, state.networks, optax.adam(state.config.lr)
    size = batch.action.shape[-1]
    key, noise_key = jax.random.split(state.key)
    draws = noise.normal(noise_key, batch, 2 * size)
    next_draws, draws = draws[:, :size], draws[:, size:]
    obs_norm = normalize.merge(state.obs_norm, batch.obs, pmean)
    batch = normalize.normalize_batch(state.obs_norm, batch)

    critic_data = (batch, target(state, batch, next_draws), networks.critic)
    critic, info = optim.descend(
        state.critic, tx, critics.q_loss, *critic_data, pmean=pmean
    )
    actor_data = (critic.params, state.log_alpha.params, batch, draws, networks)
    actor, actor_info = optim.descend(
        state.actor, tx, actor_loss, *actor_data, pmean=pmean
    )
    info |= actor_info | {"Alpha": jnp.exp(state.log_alpha.params)}
    log_alpha = state.log_alpha
    if cfg.learn_alpha:
        alpha_data = (actor_info["LogPi"], -cfg.target_entropy * size)
        log_alpha, alpha_info = optim.descend(
            log_alpha, tx, entropy_loss, *alpha_data, pmean=pmean
        )
        info |= alpha_info
    state = dataclasses.replace(
        state,
        actor=actor,
        critic=critic,
        target=optim.polyak(state.target, critic.params, cfg.tau),
        log_alpha=log_alpha,
        obs_norm=obs_norm,
        key=key,
    )
    return state, info
