"""Acting on the host: by NumPy for jaxrl's networks and few environments, else jit."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxrl.errors import UserError
from jaxrl.maths import nets, normalize
from jaxrl.policy import Policy
from jaxrl.types import Algorithm

# Most observations at once for which NumPy is quicker than a jitted call.
FEW = 8

HEADS: dict[type, tuple[str, str]] = {
    nets.GaussianPolicy: ("gaussian", "mean"),
    nets.CategoricalPolicy: ("categorical", "logits"),
    nets.TanhGaussianPolicy: ("tanh_gaussian", "trunk"),
    nets.DeterministicPolicy: ("deterministic", "trunk"),
}

Act = Callable[[np.ndarray, np.random.Generator | None], np.ndarray]


def numpy_policy(state: Any) -> Policy | None:
    """The policy of `state` in NumPy, if its actor is one of jaxrl's own."""
    module = state.networks.actor
    if type(module) not in HEADS:
        return None
    head, trunk = HEADS[type(module)]
    mlp = getattr(module, trunk)
    if type(mlp) is not nets.MLP:
        return None
    # Copies, because the buffers are donated to the next update.
    params = jax.tree.map(np.array, state.actor.params["params"])
    layers = [params[trunk][f"Dense_{i}"] for i in range(len(mlp.widths))]
    norm = state.obs_norm
    return Policy(
        layers=[(layer["kernel"], layer["bias"]) for layer in layers],
        activation=mlp.activation,
        head=head,
        log_std=params.get("log_std", 0.0),
        noise=float(getattr(state.config, "act_noise", 0.0)),
        mean=None if norm is None else np.array(norm.mean),
        std=None if norm is None else np.array(norm.std),
        clip=normalize.CLIP,
    )


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
    for i, layer in enumerate(policy.layers):
        for name, value in zip(("kernel", "bias"), layer, strict=True):
            found[f"{trunk}['Dense_{i}']['{name}']"] = value
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
        self._few = count <= FEW
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
