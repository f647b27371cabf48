"""Networks: Linen modules that a user may replace by their own.

What an algorithm asks of a module:

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
from jaxrl.settings import Activation, Initializer, Widths
from jaxrl.types import Box, EnvSpec, Params

ACTIVATIONS: dict[Activation, Callable[[jax.Array], jax.Array]] = {
    "tanh": nn.tanh,
    "relu": nn.relu,
    "elu": nn.elu,
    "gelu": nn.gelu,
    "silu": nn.silu,
}
INITIALIZERS: dict[Initializer, Callable[[float], nn.initializers.Initializer]] = {
    "orthogonal": nn.initializers.orthogonal,
    # Uniform in ±scale/√(inputs), as PyTorch's linear layer; biases begin at 0.
    "uniform": lambda scale: nn.initializers.variance_scaling(
        scale**2 / 3, "fan_in", "uniform"
    ),
}


class Module(Protocol):
    """A Linen module, by the two methods that are called."""

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
        # The gain that keeps an orthogonal layer's output at the size of its input.
        gain = 2**0.5 if self.initializer == "orthogonal" else 1.0
        make = INITIALIZERS[self.initializer]
        for width in self.widths[:-1]:
            x = nn.Dense(width, kernel_init=make(gain), param_dtype=float)(x)
            x = ACTIVATIONS[self.activation](x)
        last = make(self.last_scale)
        return nn.Dense(self.widths[-1], kernel_init=last, param_dtype=float)(x)


class GaussianPolicy(nn.Module):
    """A mean that depends on the observation, a spread that does not."""

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
    """Mean and log σ from one trunk; log σ is kept in [-20, 2]."""

    trunk: nn.Module

    def __call__(self, obs: jax.Array) -> TanhGaussian:
        mean, log_std = jnp.split(self.trunk(obs), 2, axis=-1)
        return TanhGaussian(mean, log_std.clip(-20, 2))


class DeterministicPolicy(nn.Module):
    """One action for an observation, squashed into [-1, 1]."""

    trunk: nn.Module

    def __call__(self, obs: jax.Array) -> jax.Array:
        return jnp.tanh(self.trunk(obs))


class Value(nn.Module):
    """V(s), or Q(s, a) where an action is given."""

    trunk: nn.Module

    def __call__(self, *inputs: jax.Array) -> jax.Array:
        return self.trunk(jnp.concatenate(inputs, axis=-1))[..., 0]


class Shape(Protocol):
    """The settings that default networks are built from."""

    @property
    def hidden(self) -> Widths: ...
    @property
    def activation(self) -> Activation: ...
    @property
    def initializer(self) -> Initializer: ...


def stochastic(spec: EnvSpec, cfg: Shape) -> Networks:
    """The on-policy pair: a policy for the action space, and a V apart from it."""
    nearly_uniform = 0.01 if cfg.initializer == "orthogonal" else 1.0
    size = spec.action.size
    head = MLP((*cfg.hidden, size), cfg.activation, cfg.initializer, nearly_uniform)
    value = Value(MLP((*cfg.hidden, 1), cfg.activation, cfg.initializer))
    if isinstance(spec.action, Box):
        return Networks(GaussianPolicy(head, size), value)
    return Networks(CategoricalPolicy(head), value)


def deterministic(spec: EnvSpec, cfg: Shape) -> Networks:
    """The pair of DDPG and TD3: one action for an observation, and Q."""
    head = MLP((*cfg.hidden, spec.action.size), cfg.activation, cfg.initializer)
    value = Value(MLP((*cfg.hidden, 1), cfg.activation, cfg.initializer))
    return Networks(DeterministicPolicy(head), value)


def squashed(spec: EnvSpec, cfg: Shape) -> Networks:
    """The pair of SAC: a TanhGaussian, and Q."""
    trunk = MLP((*cfg.hidden, 2 * spec.action.size), cfg.activation, cfg.initializer)
    value = Value(MLP((*cfg.hidden, 1), cfg.activation, cfg.initializer))
    return Networks(TanhGaussianPolicy(trunk), value)


def init_stochastic(
    networks: Networks, key: jax.Array, spec: EnvSpec
) -> tuple[Params, Params]:
    """Parameters of the on-policy pair."""
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
    due = (*ROWS, spec.action.size)
    shapes = {leaf.shape for leaf in jax.tree.leaves(output)}
    plain = kind is jax.Array
    right_kind = isinstance(output, jax.ShapeDtypeStruct if plain else kind)
    if not right_kind or shapes != {due}:
        asked = "an array" if plain else f"a {kind.__name__} of arrays"
        raise ValueError(
            f"for obs [..., {spec.obs_size}] the actor {type(module).__name__} "
            f"must give {asked} [..., {spec.action.size}], but for shape "
            f"{(*ROWS, spec.obs_size)} it gives {jax.tree.map(jnp.shape, output)}"
        )
    return params


def init_critic(module: Module, key: jax.Array, *sizes: int) -> Params:
    """Parameters of a critic, which returns one value for each row of its inputs."""
    params = _init_params(module, key, *sizes)
    output = _output(module, params, *sizes)
    if getattr(output, "shape", None) != ROWS:
        raise ValueError(
            f"the critic {type(module).__name__} must give one value for each row, "
            f"{ROWS} for {ROWS}, but gives {jax.tree.map(jnp.shape, output)}; take "
            "[..., 0] of a last axis of 1"
        )
    return params


ROWS = (2, 3)  # leading axes with which a module is tried: any number of them may come


def check(networks: Networks) -> Networks:
    """Refuses what is not a pair of Linen modules."""
    if not isinstance(networks, Networks):
        raise TypeError(
            f"networks is a {type(networks).__name__}, but must be "
            "jaxrl.maths.nets.Networks(actor, critic)"
        )
    for name, module in networks._asdict().items():
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"networks.{name} is {module!r}, but must be an instance of a Linen "
                "module; classes are called first, as in Critic()"
            )
        try:
            hash(module)
        except TypeError:
            raise ValueError(
                f"networks.{name} cannot be hashed, and so not be compiled for; give "
                f"{type(module).__name__} tuples in place of lists and dicts"
            ) from None
    return networks


def _output(module: Module, params: Params, *sizes: int) -> Any:
    with _refusal(module, sizes):
        return jax.eval_shape(module.apply, params, *_zeros(ROWS, sizes))


def _zeros(lead: tuple[int, ...], sizes: tuple[int, ...]) -> list[jax.Array]:
    return [jnp.zeros((*lead, size)) for size in sizes]


@contextlib.contextmanager
def _refusal(module: Module, sizes: tuple[int, ...]) -> Iterator[None]:
    """Turns what a module raises into a sentence about the module."""
    try:
        yield
    except (TypeError, flax.errors.FlaxError) as error:
        reason = str(error).split(" (https")[0].split("\n")[0]
        inputs = " and ".join(f"an array [..., {size}]" for size in sizes)
        raise ValueError(
            f"the module {type(module).__name__} cannot be called with {inputs} and "
            f"nothing else: {reason}"
        ) from None


def _init_params(module: Module, key: jax.Array, *sizes: int) -> Params:
    with _refusal(module, sizes):
        variables = _init(module, key, *_zeros((1,), sizes))
    others = set(variables) - {"params"}
    if others:
        raise ValueError(
            f"{type(module).__name__} keeps {', '.join(sorted(others))} beside its "
            "parameters, and jaxrl trains parameters only; use modules without state, "
            "such as LayerNorm in place of BatchNorm"
        )
    return variables


@partial(jax.jit, static_argnums=0)  # op by op it takes seconds
def _init(module: Module, key: jax.Array, *inputs: jax.Array) -> Params:
    return module.init(key, *inputs)
