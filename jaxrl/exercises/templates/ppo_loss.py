"""Write the loss of PPO's policy (Schulman et al., 2017, arXiv:1707.06347).

With the ratio ρ = π(a|s) / π_old(a|s), the loss to minimize is

    L = −E[min(ρ A, clip(ρ, 1 − ε, 1 + ε) A)].

`log_prob` and `old_log_prob` are log π(a|s) and log π_old(a|s), `advantage` is A, all
of shape [B]; `clip_ratio` is ε. The result is one number. It is differentiated by
`log_prob`.
"""

import jax


def ppo_loss(
    log_prob: jax.Array,
    old_log_prob: jax.Array,
    advantage: jax.Array,
    clip_ratio: float,
) -> jax.Array:
    """−E[min(ρ A, clip(ρ, 1 − ε, 1 + ε) A)]."""
    raise NotImplementedError
