"""Deep Deterministic Policy Gradient (Lillicrap et al., 2016, arXiv:1509.02971).

target  y   = r + γ (1 − d) Q̄(s′, μ̄(s′))
critic  L_Q = E[(Q(s, a) − y)²]
actor   L_μ = −E[Q(s, μ(s))]
polyak  θ̄   ← (1 − τ) θ̄ + τ θ,  of the actor and the critic
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxrl import checks, settings
from jaxrl.maths import critics, nets, normalize, optim
from jaxrl.settings import Fraction, NonNegative, Positive, Widths
from jaxrl.types import EnvSpec, Metrics, OffPolicy, Params, Pmean, Transition, identity

DATA = OffPolicy()


@settings.pytree
class Config:
    gamma: Fraction = 0.99
    """Discount factor."""
    tau: Fraction = 0.005
    """Fraction by which target networks move towards the trained ones per update."""
    pi_lr: Positive = 1e-3
    """Learning rate of the policy."""
    q_lr: Positive = 1e-3
    """Learning rate of the critic."""
    act_noise: NonNegative = 0.1
    """Standard deviation of the exploration noise, for actions in [-1, 1]."""
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
    target: tuple[Params, Params]  # of the actor and the critic
    obs_norm: normalize.Moments | None
    config: Config
    networks: nets.Networks = dataclasses.field(metadata={"static": True})


def init(
    key: jax.Array,
    spec: EnvSpec,
    config: Config = Config(),
    networks: nets.Networks | None = None,
) -> State:
    """The initial state for environments like `spec`."""
    checks.spec(spec, "ddpg", needs="bounded")
    cfg = checks.config(config, Config)
    networks = nets.check(networks or nets.ddpg_networks(spec, cfg))
    actor, critic = critics.init_with_actor(networks, 1, spec, jax.Array, key)
    return State(
        actor=optim.create(actor, optax.adam(cfg.pi_lr)),
        critic=optim.create(critic, optax.adam(cfg.q_lr)),
        target=jax.tree.map(jnp.copy, (actor, critic)),
        obs_norm=normalize.Moments.zero(spec.obs_size) if cfg.normalize_obs else None,
        config=cfg,
        networks=networks,
    )


def act(state: State, obs: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """μ(s), with a key plus noise, clipped to [-1, 1]."""
    norm_obs = normalize.normalize_obs(state.obs_norm, obs)
    action = state.networks.actor.apply(state.actor.params, norm_obs)
    if key is None:
        return action
    noise = state.config.act_noise * jax.random.normal(key, action.shape, action.dtype)
    return (action + noise).clip(-1, 1)


def target(state: State, batch: Transition) -> Float[Array, " batch"]:
    """The Bellman target y; a constant of the critic's loss."""
    actor, critic = state.target
    action = state.networks.actor.apply(actor, batch.next_obs)
    (q,) = critics.q(critic, state.networks.critic, batch.next_obs, action)
    return critics.bellman(batch, q, state.config.gamma)


def actor_loss(
    params: Params,
    critic: tuple[Params, ...],
    batch: Transition,
    networks: nets.Networks,
) -> tuple[jax.Array, Metrics]:
    """−E[Q(s, μ(s))]."""
    action = networks.actor.apply(params, batch.obs)
    loss = -networks.critic.apply(critic[0], batch.obs, action).mean()
    return loss, {"LossPi": loss}


def update(
    state: State, batch: Transition, pmean: Pmean = identity
) -> tuple[State, Metrics]:
    """One gradient step on the critic, one on the actor, from transitions [B]."""
    checks.batch(batch, "ddpg", ("B",))
    cfg, networks = state.config, state.networks
    obs_norm = normalize.merge(state.obs_norm, batch.obs, pmean)
    batch = normalize.normalize_batch(state.obs_norm, batch)
    critic_data = (batch, target(state, batch), networks.critic)
    critic, critic_info = optim.descend(
        state.critic, optax.adam(cfg.q_lr), critics.q_loss, *critic_data, pmean=pmean
    )
    actor_data = (critic.params, batch, networks)
    actor, actor_info = optim.descend(
        state.actor, optax.adam(cfg.pi_lr), actor_loss, *actor_data, pmean=pmean
    )
    online = (actor.params, critic.params)
    state = dataclasses.replace(
        state,
        actor=actor,
        critic=critic,
        target=optim.polyak(state.target, online, cfg.tau),
        obs_norm=obs_norm,
    )
    return state, critic_info | actor_info
