"""Write generalized advantage estimates (Schulman et al., 2016, arXiv:1506.02438).

    δₜ = rₜ + γ V(s′ₜ) − V(sₜ),     without V(s′ₜ) if step t terminated
    Aₜ = δₜ + γ λ Aₜ₊₁,             without Aₜ₊₁ if the episode ended at step t

All arrays have shape [T, N]: T steps of N environments. `next_value` is V(s′ₜ), where
s′ₜ is the observation that followed the action, never one after a reset.

- `terminated` is a true end, after which there is no reward.
- `truncated` is a time limit: the recording ended, but rewards would have followed,
  so V(s′ₜ) counts. The step after it belongs to another episode.
- After the last step of the rollout there is no Aₜ₊₁; take 0.
"""

import jax


def gae(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    gamma: float,
    lam: float,
) -> jax.Array:
    """The advantages [T, N]."""
    raise NotImplementedError
