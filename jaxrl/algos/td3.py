"""Twin Delayed DDPG (Fujimoto et al., 2018, arXiv:1802.09477).

target  a′  = clip(μ̄(s′) + clip(ε, −c, c), −1, 1),  ε ~ N(0, σ²)
        y   = r + γ (1 − d) minⱼ Q̄ⱼ(s′, a′)
critic  L_Q = Σⱼ E[(Qⱼ(s, a) − y)²],  j = 1, 2
actor   L_μ = −E[Q₁(s, μ(s))]                      every policy_delay updates
polyak  θ̄   ← (1 − τ) θ̄ + τ θ                      with the actor
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxrl import checks, settings
from jaxrl.maths import critics, nets, noise, normalize, optim
from jaxrl.settings import Fraction, NonNegative, Positive, Size, Widths
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
    """Learning rate of the critics."""
    act_noise: NonNegative = 0.1
    """Standard deviation of the exploration noise, for actions in [-1, 1]."""
    target_noise: NonNegative = 0.2
    """Standard deviation of the smoothing noise on target actions."""
    noise_clip: NonNegative = 0.5
    """Maximum absolute smoothing noise on target actions."""
    policy_delay: Size = 2
    """Critic updates per policy update."""
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
    target: tuple[Params, Params]  # of the actor and the critics
    obs_norm: normalize.Moments | None
    updates: jax.Array
    loss_pi: jax.Array  # of the actor's last step
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
    checks.spec(spec, "td3", needs="bounded")
    cfg = checks.config(config, Config)
    networks = nets.check(networks or nets.ddpg_networks(spec, cfg))
    nets_key, noise_key = jax.random.split(key)
    actor, critic = critics.init_with_actor(networks, 2, spec, jax.Array, nets_key)
    return State(
        actor=optim.create(actor, optax.adam(cfg.pi_lr)),
        critic=optim.create(critic, optax.adam(cfg.q_lr)),
        target=jax.tree.map(jnp.copy, (actor, critic)),
        obs_norm=normalize.Moments.zero(spec.obs_size) if cfg.normalize_obs else None,
        updates=jnp.zeros((), int),
        loss_pi=jnp.zeros(()),
        key=noise_key,
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


def target(
    state: State, batch: Transition, draws: Float[Array, "batch action"]
) -> Float[Array, " batch"]:
    """The Bellman target y with a smoothed action; `draws` are standard normal."""
    cfg, (actor, critic) = state.config, state.target
    smooth = (cfg.target_noise * draws).clip(-cfg.noise_clip, cfg.noise_clip)
    action = state.networks.actor.apply(actor, batch.next_obs) + smooth
    twins = critics.q(
        critic, state.networks.critic, batch.next_obs, action.clip(-1, 1)
    )  # [2, B]
    return critics.bellman(batch, twins.min(axis=0), cfg.gamma)


def actor_loss(
    params: Params,
    critic: tuple[Params, ...],
    batch: Transition,
    networks: nets.Networks,
) -> tuple[jax.Array, jax.Array]:
    """−E[Q₁(s, μ(s))]."""
    action = networks.actor.apply(params, batch.obs)
    loss = -networks.critic.apply(critic[0], batch.obs, action).mean()
    return loss, loss


def update(
    state: State, batch: Transition, pmean: Pmean = identity
) -> tuple[State, Metrics]:
    """One gradient step on the critics, in some updates one on the actor, from [B]."""
    checks.batch(batch, "td3", ("B",))
    cfg, networks = state.config, state.networks
    key, noise_key = jax.random.split(state.key)
    draws = noise.normal(noise_key, batch, batch.action.shape[-1])
    obs_norm = normalize.merge(state.obs_norm, batch.obs, pmean)
    batch = normalize.normalize_batch(state.obs_norm, batch)
    critic_data = (batch, target(state, batch, draws), networks.critic)
    critic, critic_info = optim.descend(
        state.critic, optax.adam(cfg.q_lr), critics.q_loss, *critic_data, pmean=pmean
    )

    def actor_step(actor: optim.Net, target: tuple, _: jax.Array) -> tuple:
        actor_data = (critic.params, batch, networks)
        actor, loss = optim.descend(
            actor, optax.adam(cfg.pi_lr), actor_loss, *actor_data, pmean=pmean
        )
        online = (actor.params, critic.params)
        return actor, optim.polyak(target, online, cfg.tau), pmean(loss)

    before = (state.actor, state.target, state.loss_pi)
    actor, targets, loss_pi = jax.lax.cond(
        state.updates % cfg.policy_delay == 0, actor_step, lambda *same: same, *before
    )
    state = dataclasses.replace(
        state,
        actor=actor,
        critic=critic,
        target=targets,
        obs_norm=obs_norm,
        updates=state.updates + 1,
        loss_pi=loss_pi,
        key=key,
    )
    return state, critic_info | {"LossPi": loss_pi}
