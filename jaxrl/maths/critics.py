"""Value functions: ensembles of Q(s, a), and V(s) with policy evaluation."""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxrl.maths import nets, normalize, optim, returns
from jaxrl.types import EnvSpec, Metrics, Params, Pmean, Real, Transition


def init_with_actor(
    networks: nets.Networks, size: int, spec: EnvSpec, kind: type, key: jax.Array
) -> tuple[Params, tuple[Params, ...]]:
    """Parameters of an actor that returns a `kind`, and of `size` critics.

    Each critic has its own parameters: on CPU that is faster than one batched net.
    """
    actor_key, *critic_keys = jax.random.split(key, size + 1)
    actor = nets.init_actor(networks.actor, actor_key, spec, kind)
    sizes = (spec.obs_size, spec.action.size)
    return actor, tuple(
        nets.init_critic(networks.critic, each, *sizes) for each in critic_keys
    )


def q(
    params: tuple[Params, ...], module: nets.Module, obs: jax.Array, action: jax.Array
) -> Float[Array, "ensemble *batch"]:
    """Q(s, a) of every critic."""
    return jnp.stack([module.apply(each, obs, action) for each in params])


def bellman(
    batch: Transition, next_value: Float[Array, " batch"], gamma: Real
) -> Float[Array, " batch"]:
    """r + γ (1 − terminated) V(s′): a time limit does not end the return."""
    ended = batch.terminated.astype(bool)
    return batch.reward + gamma * jnp.where(ended, 0, next_value)


def q_loss(
    params: tuple[Params, ...],
    batch: Transition,
    target: Float[Array, " batch"],
    module: nets.Module,
) -> tuple[jax.Array, Metrics]:
    """Σⱼ E[(Qⱼ(s, a) − y)²] over the ensemble j, with y = `target`."""
    values = q(params, module, batch.obs, batch.action)  # [ensemble, B]
    loss = jnp.sum(jnp.mean((values - target[None]) ** 2, axis=1))
    numbered = [f"Q{j + 1}Vals" for j in range(len(params))]
    names = numbered if len(params) > 1 else ["QVals"]
    return loss, {"LossQ": loss} | dict(zip(names, values, strict=True))


class HasCritic(Protocol):
    """The fields of an on-policy state that `estimate` reads."""

    @property
    def critic(self) -> optim.Net:
        """The parameters of V."""

    @property
    def return_norm(self) -> normalize.Moments | None:
        """The moments of the returns, or None."""

    @property
    def config(self) -> Any:
        """The settings, with gamma and lam."""

    @property
    def networks(self) -> nets.Networks:
        """The modules."""


class ValueEstimate(NamedTuple):
    """Values and advantages of a rollout [T, N], in the units of the rewards."""

    value: Float[Array, "time env"]
    advantage: Float[Array, "time env"]

    @property
    def returns(self) -> jax.Array:
        """The λ-returns, on which the critic is trained."""
        return self.value + self.advantage

    def targets(
        self, return_norm: normalize.Moments | None, pmean: Pmean
    ) -> tuple[jax.Array, jax.Array]:
        """Standardised advantages, and the critic's targets on its output scale."""
        advantage = returns.standardize(self.advantage, pmean)
        return advantage, normalize.standardize(return_norm, self.returns)

    def metrics(self) -> Metrics:
        """VVals and ExplainedVariance."""
        explained = returns.explained_variance(self.value, self.returns)
        return {"VVals": self.value, "ExplainedVariance": explained}


def estimate(state: HasCritic, rollout: Transition) -> ValueEstimate:
    """V(s) and GAE advantages of a rollout whose observations are normalised."""

    def predict(obs: jax.Array) -> jax.Array:
        rows = obs.reshape(-1, obs.shape[-1])  # [T·N, obs_size]
        output = state.networks.critic.apply(state.critic.params, rows)
        return normalize.restore(state.return_norm, output).reshape(obs.shape[:-1])

    value, cfg = predict(rollout.obs), state.config
    next_value = predict(rollout.next_obs)
    advantage = returns.gae(rollout, value, next_value, cfg.gamma, cfg.lam)
    return ValueEstimate(value, advantage)


def value_loss(
    params: Params, obs: jax.Array, target: jax.Array, module: nets.Module
) -> tuple[jax.Array, jax.Array]:
    """E[(V(s) − R)²], with R = `target` on the scale of the network's output."""
    loss = jnp.mean((module.apply(params, obs) - target) ** 2)
    return loss, loss


def regress(
    critic: optim.Net,
    tx: optax.GradientTransformation,
    obs: jax.Array,
    target: jax.Array,
    module: nets.Module,
    steps: int,
    pmean: Pmean,
) -> tuple[optim.Net, Metrics]:
    """`steps` full-batch gradient steps on the value loss."""

    def step(net: optim.Net, _: None) -> tuple[optim.Net, jax.Array]:
        return optim.descend(net, tx, value_loss, obs, target, module, pmean=pmean)

    trained, _ = jax.lax.scan(step, critic, length=steps)
    return trained, value_loss_metrics(critic, trained, obs, target, module)


def value_loss_metrics(
    before: optim.Net,
    after: optim.Net,
    obs: jax.Array,
    target: jax.Array,
    module: nets.Module,
) -> Metrics:
    """The value loss before an update and its change."""
    old, _ = value_loss(before.params, obs, target, module)
    new, _ = value_loss(after.params, obs, target, module)
    return {"LossV": old, "DeltaLossV": new - old}
