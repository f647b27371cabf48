"""Acting on the host: by NumPy for jaxrl's networks and few environments, else jit."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxrl import algos
from jaxrl.errors import UserError
from jaxrl.maths import nets, normalize
from jaxrl.policy import Policy
from jaxrl.runs import models
from jaxrl.types import Algorithm, EnvSpec

# Most observations at once for which NumPy is quicker than a jitted call.
FEW = 8
ROWS = 64  # observations for which greedy actions are compared

HEADS: dict[type, tuple[str, str]] = {
    nets.GaussianPolicy: ("gaussian", "mean"),
    nets.CategoricalPolicy: ("categorical", "logits"),
    nets.MultiCategoricalPolicy: ("multi_categorical", "logits"),
    nets.BernoulliPolicy: ("bernoulli", "logits"),
    nets.TanhGaussianPolicy: ("tanh_gaussian", "trunk"),
    nets.DeterministicPolicy: ("deterministic", "trunk"),
}

Act = Callable[[np.ndarray, np.random.Generator | None], np.ndarray]


def acts_as_ours(algo: Algorithm) -> bool:
    """Whether `act` is that of one of jaxrl's algorithms, or a copy of it.

    Only then is `numpy_policy` sure to explore in the same way.
    """
    if getattr(algo, "__name__", "").startswith("jaxrl.algos."):
        return True
    return any(_same(algo, algos.get(name)) for name in algos.NAMES)


def _same(algo: Algorithm, ours: Algorithm) -> bool:
    """Whether both compute the same by `act`: its code, and the names in it."""
    code, known = getattr(algo.act, "__code__", None), ours.act.__code__
    if code is None or code.co_code != known.co_code or code.co_names != known.co_names:
        return False
    sentences = algo.act.__doc__, ours.act.__doc__
    constants = [
        [x for x in one.co_consts if x not in sentences] for one in (code, known)
    ]
    names = [name for name in known.co_names if name in vars(ours)]
    same = all(vars(algo).get(name) is vars(ours)[name] for name in names)
    return same and constants[0] == constants[1]


def numpy_policy(state: Any) -> Policy | None:
    """The policy of `state` in NumPy, if its actor is one of jaxrl's own."""
    module = getattr(getattr(state, "networks", None), "actor", None)
    if type(module) not in HEADS:
        return None
    head, trunk = HEADS[type(module)]
    body = getattr(module, trunk)
    if type(body) not in (nets.MLP, nets.NatureCNN):
        return None
    # Copies, because the buffers are donated to the next update.
    params = jax.tree.map(np.array, state.actor.params["params"])
    norm = state.obs_norm
    encoder: dict[str, Any] = {}
    if isinstance(body, nets.NatureCNN):
        encoder = {"image": body.image, "filters": _layers(params[trunk], "Conv")}
    return Policy(
        layers=_layers(params[trunk], "Dense"),
        activation=getattr(body, "activation", "relu"),
        head=head,
        log_std=params.get("log_std", 0.0),
        noise=float(getattr(state.config, "act_noise", 0.0)),
        mean=None if norm is None else np.array(norm.mean),
        std=None if norm is None else np.array(norm.std),
        clip=normalize.CLIP,
        nvec=getattr(module, "nvec", ()),
        **encoder,
    )


def saved_policy(
    algo: Algorithm, spec: EnvSpec, state: Any
) -> tuple[Policy | None, dict[str, np.ndarray] | None]:
    """What a model holds: the policy in NumPy, or the arrays that `act` needs.

    Both, where NumPy gives the greedy actions of an `act` that explores in its own way.
    """
    try:
        policy = numpy_policy(state)
        if policy is not None and acts_as_ours(algo):
            return policy, None
        if policy is not None and not _same_greedy(policy, algo, spec, state):
            policy = None
    except (AttributeError, KeyError, TypeError, ValueError):  # a state of another form
        policy = None
    return policy, models.arrays_for_acting(algo, spec, state)


def _same_greedy(policy: Policy, algo: Algorithm, spec: EnvSpec, state: Any) -> bool:
    """By the actions for some observations, small ones and large."""
    rng = np.random.default_rng(0)
    scales = np.geomspace(0.1, 10, ROWS, dtype=np.float32)[:, None]
    obs = rng.standard_normal((ROWS, spec.obs_size), np.float32) * scales
    if spec.image:
        obs = np.abs(obs * 25).clip(0, 255).astype(spec.obs_dtype)
    ours, theirs = policy(obs), np.asarray(jax.jit(algo.act)(state, obs))
    return ours.shape == theirs.shape and np.allclose(ours, theirs, atol=1e-3)


def _layers(params: Any, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of the layers of one kind, in their order."""
    names = [f"{kind}_{i}" for i in range(len(params))]
    found = [params[name] for name in names if name in params]
    return [(layer["kernel"], layer["bias"]) for layer in found]


def policy_leaves(
    state: Any, leaves: Mapping[str, np.ndarray], policy: Policy, obs_batches: int
) -> dict[str, np.ndarray]:
    """The leaves of `state`, by name, that would make its policy `policy`.

    `leaves` are those that it has. A target network of the actor's is one with it.
    """
    own = numpy_policy(state)
    if own is None:
        raise UserError("a model fits jaxrl's own networks only; use a checkpoint")
    if own.head != policy.head or own.activation != policy.activation:
        raise UserError(
            f"the model has a {policy.head} head and {policy.activation} activations, "
            f"this run's policy a {own.head} head and {own.activation}"
        )
    params = ".actor.params['params']"
    trunk = f"{params}['{HEADS[type(state.networks.actor)][1]}']"
    found = {}
    for kind, layers in ("Dense", policy.layers), ("Conv", policy.filters):
        for i, layer in enumerate(layers):
            for name, value in zip(("kernel", "bias"), layer, strict=True):
                found[f"{trunk}['{kind}_{i}']['{name}']"] = value
    if own.head == "gaussian":
        found[f"{params}['log_std']"] = np.asarray(policy.log_std)
    missing = [k for k in leaves if k.startswith(".actor.params") and k not in found]
    target = {k.replace(".actor.params", ".target[0]"): x for k, x in found.items()}
    same = [k for k in target if k in leaves and leaves[k].shape == target[k].shape]
    if len(same) == len(target):
        found |= target
    if policy.mean is not None and policy.std is not None:
        found[".obs_norm.mean"] = policy.mean
        found[".obs_norm.var"] = np.maximum(policy.std**2 - normalize.EPSILON, 0)
        found[".obs_norm.batches"] = np.asarray(obs_batches)
    missing += [k for k in leaves if k.startswith(".obs_norm") and k not in found]
    if missing:
        raise UserError(f"the model lacks {', '.join(missing)}")
    return {
        k: np.asarray(x, leaves[k].dtype if k in leaves else None)
        for k, x in found.items()
    }


class Actor:
    """Acts by the policy of the state given last."""

    def __init__(self, algo: Algorithm, count: int) -> None:
        self._few = count <= FEW and acts_as_ours(algo)
        self._jitted = jax.jit(algo.act)
        self._state: Any = None
        self._policy: Policy | None = None

    def set_state(self, state: Any) -> None:
        self._policy = numpy_policy(state) if self._few else None
        self._state = state

    def __call__(
        self, obs: np.ndarray, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """With a generator it explores, without one it is greedy."""
        if self._policy is not None:
            return self._policy(obs, rng)
        key = None if rng is None else jax.random.key(rng.integers(2**32))
        return np.asarray(self._jitted(self._state, obs, key))
