"""Write the target of TD3's critics (Fujimoto et al., 2018, arXiv:1802.09477).

    a′ = clip(μ̄(s′) + clip(σ ε, −c, c), −1, 1),     ε ~ N(0, 1)
    y  = r + γ min(Q̄₁(s′, a′), Q̄₂(s′, a′)),         without the minimum if terminated

- `reward` and `terminated` have shape [B].
- `next_action` is μ̄(s′) [B, n], and `draws` is ε [B, n], standard normal numbers.
- `q1` and `q2` are functions: `q1(action)` is Q̄₁(s′, action), of shape [B].
- `gamma` is γ, `target_noise` is σ, `noise_clip` is c.
"""

from collections.abc import Callable

import jax

Critic = Callable[[jax.Array], jax.Array]


def td3_target(
    reward: jax.Array,
    terminated: jax.Array,
    next_action: jax.Array,
    draws: jax.Array,
    q1: Critic,
    q2: Critic,
    gamma: float,
    target_noise: float,
    noise_clip: float,
) -> jax.Array:
    """The targets y [B]."""
    raise NotImplementedError
