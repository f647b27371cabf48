"""Networks: Linen modules, which a user may replace by their own.

Inputs and outputs of the modules:

    on-policy actor    obs [..., obs_size]  ->  a Gaussian, Categorical,
                                                MultiCategorical or Bernoulli
    SAC's actor        obs [..., obs_size]  ->  a TanhGaussian
    DDPG, TD3 actor    obs [..., obs_size]  ->  an action in [-1, 1]
    on-policy critic   obs [..., obs_size]  ->  a value [...]
    off-policy critic  obs, action          ->  a value [...]
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import flax.errors
import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.maths.distributions import (
    Bernoulli,
    Categorical,
    Gaussian,
    MultiCategorical,
)
from jaxrl.maths.heads import BernoulliPolicy as BernoulliPolicy
from jaxrl.maths.heads import CategoricalPolicy as CategoricalPolicy
from jaxrl.maths.heads import DeterministicPolicy as DeterministicPolicy
from jaxrl.maths.heads import GaussianPolicy as GaussianPolicy
from jaxrl.maths.heads import MultiCategoricalPolicy as MultiCategoricalPolicy
from jaxrl.maths.heads import TanhGaussianPolicy as TanhGaussianPolicy
from jaxrl.maths.heads import Value as Value
from jaxrl.maths.trunks import MLP as MLP
from jaxrl.maths.trunks import NatureCNN as NatureCNN
from jaxrl.settings import Activation, Encoder, Initializer, Widths
from jaxrl.types import Box, Discrete, EnvSpec, MultiBinary, MultiDiscrete, Params

KINDS: dict[type, type] = {
    Box: Gaussian,
    Discrete: Categorical,
    MultiDiscrete: MultiCategorical,
    MultiBinary: Bernoulli,
}


class Module(Protocol):
    """The two methods of a Linen module that are called."""

    def init(self, rngs: Any, *inputs: Any) -> Any:
        """Initial variables."""

    def apply(self, variables: Any, *inputs: Any) -> Any:
        """The output for inputs."""


class Networks(NamedTuple):
    """The modules of one algorithm, static in its state."""

    actor: Module
    critic: Module


class NetworkSettings(Protocol):
    """The settings from which default networks are built."""

    @property
    def hidden(self) -> Widths:
        """Widths of the hidden layers."""

    @property
    def activation(self) -> Activation:
        """Activation function."""

    @property
    def initializer(self) -> Initializer:
        """Weight initialization."""


class EncoderSettings(NetworkSettings, Protocol):
    """Also with a choice of encoders."""

    @property
    def encoder(self) -> Encoder:
        """Network body."""


def actor_critic_networks(spec: EnvSpec, cfg: EncoderSettings) -> Networks:
    """The networks of VPG, TRPO and PPO: a policy for the action space, and V(s)."""
    last_scale = 0.01 if cfg.initializer == "orthogonal" else 1.0
    head = _trunk(spec, cfg, spec.action.size, last_scale)
    value = Value(_trunk(spec, cfg, 1, 1.0))
    match spec.action:
        case Box():
            return Networks(GaussianPolicy(head, spec.action.size), value)
        case MultiDiscrete(nvec):
            return Networks(MultiCategoricalPolicy(head, nvec), value)
        case MultiBinary():
            return Networks(BernoulliPolicy(head), value)
    return Networks(CategoricalPolicy(head), value)


def _trunk(spec: EnvSpec, cfg: EncoderSettings, size: int, scale: float) -> nn.Module:
    """An MLP, or the encoder of images and one layer, with `size` outputs."""
    if spec.image_part and cfg.encoder == "auto":
        raise ValueError(
            "an image is a part of the observations (of a Dict, a Tuple or a stack of "
            "colour images), for which there is no encoder; wrap the environment to "
            "observe one image [H, W, C] or [C, H, W], or set --encoder mlp to flatten "
            "all of it"
        )
    if cfg.encoder == "mlp" or (cfg.encoder == "auto" and not spec.image):
        return MLP((*cfg.hidden, size), cfg.activation, cfg.initializer, scale)
    if not spec.image:
        raise ValueError(
            f"encoder is nature_cnn, but the {spec.obs_size} observations are not an "
            "image [H, W, C], [C, H, W] or [H, W] of uint8; set --encoder mlp"
        )
    return NatureCNN(spec.image, size, cfg.initializer, scale)


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
    kind = KINDS[type(spec.action)]
    return (
        init_actor(networks.actor, actor_key, spec, kind),
        init_critic(networks.critic, critic_key, spec.obs_size),
    )


def init_actor(module: Module, key: jax.Array, spec: EnvSpec, kind: type) -> Params:
    """Parameters of an actor that returns a `kind`, of the spec's action size."""
    params = _init_params(module, key, spec.obs_size)
    output = _output(module, params, spec.obs_size)
    shapes = [leaf.shape for leaf in jax.tree.leaves(output)]
    expected = [(*ROWS, spec.action.size)] * len(shapes)
    if isinstance(spec.action, MultiDiscrete):
        expected = [(*ROWS, n) for n in spec.action.nvec]
    plain = kind is jax.Array
    right_kind = isinstance(output, jax.ShapeDtypeStruct if plain else kind)
    if not right_kind or shapes != expected:
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
