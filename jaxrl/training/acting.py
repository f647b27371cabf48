"""Acting on the host: by NumPy for jaxrl's networks and few environments, else jit."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

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
