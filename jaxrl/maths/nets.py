"""Networks: Linen modules, which a user may replace by their own.

Inputs and outputs of the modules:

    on-policy actor    obs [..., obs_size]  ->  a Gaussian or Categorical
    SAC's actor        obs [..., obs_size]  ->  a TanhGaussian
    DDPG, TD3 actor    obs [..., obs_size]  ->  an action in [-1, 1]
    on-policy critic   obs [..., obs_size]  ->  a value [...]
    off-policy critic  obs, action          ->  a value [...]
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import flax.errors
import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.maths.distributions import Categorical, Gaussian, TanhGaussian
from jaxrl.policy import LOG_STD_RANGE
from jaxrl.settings import Activation, Initializer, Widths
from jaxrl.types import Box, EnvSpec, Params

INITIALIZERS: dict[Initializer, Callable[[float], nn.initializers.Initializer]] = {
    "orthogonal": nn.initializers.orthogonal,
    # Uniform in ±scale/√(inputs), as PyTorch's linear layer; biases are 0.
    "uniform": lambda scale: nn.initializers.variance_scaling(
        scale**2 / 3, "fan_in", "uniform"
    ),
}


class Module(Protocol):
    """The two methods of a Linen module that are called."""

    def init(self, rngs: Any, *inputs: Any) -> Any: ...
    def apply(self, variables: Any, *inputs: Any) -> Any: ...


class Networks(NamedTuple):
    """The modules of one algorithm, static in its state."""

    actor: Module
    critic: Module


class MLP(nn.Module):
    """Dense layers of the given widths, each but the last followed by `activation`."""

    widths: Widths
    activation: Activation = "relu"
    initializer: Initializer = "uniform"
    last_scale: float = 1.0
    """Factor of the last layer's initial weights."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        # With this gain an orthogonal layer and a ReLU keep the scale of their input.
        gain = 2**0.5 if self.initializer == "orthogonal" else 1.0
        make = INITIALIZERS[self.initializer]
        for width in self.widths[:-1]:
            x = nn.Dense(width, kernel_init=make(gain), param_dtype=float)(x)
            x = getattr(nn, self.activation)(x)
        last = make(self.last_scale)
        return nn.Dense(self.widths[-1], kernel_init=last, param_dtype=float)(x)


class GaussianPolicy(nn.Module):
    """A mean that depends on the observation, and a log σ that does not."""

    mean: nn.Module
    size: int
    log_std: float = -0.5

    @nn.compact
    def __call__(self, obs: jax.Array) -> Gaussian:
        initial = nn.initializers.constant(self.log_std)
        log_std = self.param("log_std", initial, (self.size,), float)
        mean = self.mean(obs)
        return Gaussian(mean, jnp.broadcast_to(log_std, mean.shape))


class CategoricalPolicy(nn.Module):
    """Logits of the discrete actions."""

    logits: nn.Module

    def __call__(self, obs: jax.Array) -> Categorical:
        return Categorical(self.logits(obs))


class TanhGaussianPolicy(nn.Module):
    """Mean and log σ from one trunk; log σ is clipped to `LOG_STD_RANGE`."""

    trunk: nn.Module

    def __call__(self, obs: jax.Array) -> TanhGaussian:
        mean, log_std = jnp.split(self.trunk(obs), 2, axis=-1)
        return TanhGaussian(mean, log_std.clip(*LOG_STD_RANGE))


class DeterministicPolicy(nn.Module):
    """One action per observation, the tanh of the trunk's output."""

    trunk: nn.Module

    def __call__(self, obs: jax.Array) -> jax.Array:
        return jnp.tanh(self.trunk(obs))


class Value(nn.Module):
    """V(s), or Q(s, a) if an action is given."""

    trunk: nn.Module

    def __call__(self, *inputs: jax.Array) -> jax.Array:
        return self.trunk(jnp.concatenate(inputs, axis=-1))[..., 0]


class NetworkSettings(Protocol):
    """The settings from which default networks are built."""

    @property
    def hidden(self) -> Widths: ...
    @property
    def activation(self) -> Activation: ...
    @property
    def initializer(self) -> Initializer: ...


def actor_critic_networks(spec: EnvSpec, cfg: NetworkSettings) -> Networks:
    """The networks of VPG, TRPO and PPO: a Gaussian or Categorical policy, and V(s)."""
    last_scale = 0.01 if cfg.initializer == "orthogonal" else 1.0
    size = spec.action.size
    head = MLP((*cfg.hidden, size), cfg.activation, cfg.initializer, last_scale)
    value = Value(MLP((*cfg.hidden, 1), cfg.activation, cfg.initializer))
    if isinstance(spec.action, Box):
        return Networks(GaussianPolicy(head, size), value)
    return Networks(CategoricalPolicy(head), value)


def ddpg_networks(spec: EnvSpec, cfg: NetworkSettings) -> Networks:
    """The networks of DDPG and TD3: a deterministic policy, and Q(s, a)."""
    head = MLP((*cfg.hidden, spec.action.size), cfg.activation, cfg.initializer)
    value = Value(MLP((*cfg.hidden, 1), cfg.activation, cfg.initializer))
    return Networks(DeterministicPolicy(head), value)


def sac_networks(spec: EnvSpec, cfg: NetworkSettings) -> Networks:
    """The networks of SAC: a TanhGaussian policy, and Q(s, a)."""
    trunk = MLP((*cfg.hidden, 2 * spec.action.size), cfg.activation, cfg.initializer)
    value = Value(MLP((*cfg.hidden, 1), cfg.activation, cfg.initializer))
    return Networks(TanhGaussianPolicy(trunk), value)


def init_actor_critic(
    networks: Networks, key: jax.Array, spec: EnvSpec
) -> tuple[Params, Params]:
    """Parameters of an on-policy actor and critic."""
    actor_key, critic_key = jax.random.split(key)
    kind: type = Gaussian if isinstance(spec.action, Box) else Categorical
    return (
        init_actor(networks.actor, actor_key, spec, kind),
        init_critic(networks.critic, critic_key, spec.obs_size),
    )


def init_actor(module: Module, key: jax.Array, spec: EnvSpec, kind: type) -> Params:
    """Parameters of an actor that returns a `kind`, of the spec's action size."""
    params = _init_params(module, key, spec.obs_size)
    output = _output(module, params, spec.obs_size)
    expected = (*ROWS, spec.action.size)
    shapes = {leaf.shape for leaf in jax.tree.leaves(output)}
    plain = kind is jax.Array
    right_kind = isinstance(output, jax.ShapeDtypeStruct if plain else kind)
    if not right_kind or shapes != {expected}:
        wanted = "an array" if plain else f"a {kind.__name__} of arrays"
        raise ValueError(
            f"for obs [..., {spec.obs_size}] the actor {type(module).__name__} "
            f"must return {wanted} [..., {spec.action.size}], but for shape "
            f"{(*ROWS, spec.obs_size)} it returns {jax.tree.map(jnp.shape, output)}"
        )
    return params


def init_critic(module: Module, key: jax.Array, *sizes: int) -> Params:
    """Parameters of a critic, which returns one value per row of its inputs."""
    params = _init_params(module, key, *sizes)
    output = _output(module, params, *sizes)
    if getattr(output, "shape", None) != ROWS:
        raise ValueError(
            f"the critic {type(module).__name__} must return one value per row, shape "
            f"{ROWS} for inputs {ROWS}, but returns {jax.tree.map(jnp.shape, output)}; "
            "index a last axis of size 1 with [..., 0]"
        )
    return params


ROWS = (2, 3)  # leading axes in the check of a module, which must accept any


def check(networks: Networks) -> Networks:
    """Raises an error unless `networks` is a pair of hashable Linen modules."""
    if not isinstance(networks, Networks):
        raise TypeError(
            f"networks is a {type(networks).__name__}, but must be a "
            "jaxrl.maths.nets.Networks(actor, critic)"
        )
    for name, module in networks._asdict().items():
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"networks.{name} is {module!r}, but must be an instance of a Linen "
                "module; write Critic() and not Critic"
            )
        try:
            hash(module)
        except TypeError:
            raise ValueError(
                f"networks.{name} must be hashable, so that it can be compiled; give "
                f"{type(module).__name__} tuples instead of lists and dicts"
            ) from None
    return networks


def _output(module: Module, params: Params, *sizes: int) -> Any:
    with _explain_errors(module, sizes):
        return jax.eval_shape(module.apply, params, *_zeros(ROWS, sizes))


def _zeros(lead: tuple[int, ...], sizes: tuple[int, ...]) -> list[jax.Array]:
    return [jnp.zeros((*lead, size)) for size in sizes]


@contextlib.contextmanager
def _explain_errors(module: Module, sizes: tuple[int, ...]) -> Iterator[None]:
    """Turns an error inside a module into one that names the module."""
    try:
        yield
    except (TypeError, ValueError, flax.errors.FlaxError) as error:
        reason = str(error).split(" (https")[0].split("\n")[0]
        inputs = " and ".join(f"an array [..., {size}]" for size in sizes)
        raise ValueError(
            f"the module {type(module).__name__} cannot be called with {inputs} "
            f"only: {reason}"
        ) from None


def _init_params(module: Module, key: jax.Array, *sizes: int) -> Params:
    with _explain_errors(module, sizes):
        variables = _init(module, key, *_zeros((1,), sizes))
    others = set(variables) - {"params"}
    if others:
        raise ValueError(
            f"{type(module).__name__} has the variables {', '.join(sorted(others))}, "
            "but jaxrl trains parameters only; use modules without state, such as "
            "LayerNorm instead of BatchNorm"
        )
    return variables


@partial(jax.jit, static_argnums=0)  # without jit it takes seconds
def _init(module: Module, key: jax.Array, *inputs: jax.Array) -> Params:
    return module.init(key, *inputs)
