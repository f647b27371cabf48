"""Named sets of settings that replace the defaults in the algorithms' files.

`spinup` has the hyperparameters of Spinning Up 0.2, without normalisation of
observations and returns.
"""

import math
from typing import Any

from jaxrl.algos import ddpg, ppo, sac, td3, trpo, vpg
from jaxrl.types import OffPolicy, OnPolicy

PLAIN: dict[str, Any] = {
    "normalize_obs": False,
    "normalize_returns": False,
    "initializer": "uniform",
}
ON_POLICY = OnPolicy(steps_per_epoch=4000, epochs=50)
OFF_POLICY = OffPolicy(steps_per_epoch=4000, epochs=100, batch_size=100)

PRESETS: dict[str, dict[str, tuple[Any, OnPolicy | OffPolicy]]] = {
    "spinup": {
        "vpg": (vpg.Config(pi_lr=3e-4, **PLAIN), ON_POLICY),
        "trpo": (trpo.Config(**PLAIN), ON_POLICY),
        "ppo": (
            ppo.Config(
                lam=0.97,
                vf_lr=1e-3,
                lr_decay=0.0,
                train_pi_iters=80,
                train_v_iters=80,
                minibatches=1,
                refresh_advantages=False,
                target_kl=0.01,
                max_grad_norm=math.inf,
                **PLAIN,
            ),
            ON_POLICY,
        ),
        "ddpg": (ddpg.Config(), OFF_POLICY),
        "td3": (td3.Config(pi_lr=1e-3, q_lr=1e-3), OFF_POLICY),
        "sac": (sac.Config(lr=1e-3, alpha=0.2, learn_alpha=False), OFF_POLICY),
    }
}


def preset(name: str, algo: str) -> tuple[Any, OnPolicy | OffPolicy]:
    """The `Config` and the `OnPolicy` or `OffPolicy` of preset `name` for `algo`."""
    if name not in PRESETS:
        raise ValueError(
            f"there is no preset {name!r}; choose {', '.join(PRESETS)}, or none for "
            "the defaults"
        )
    if algo not in PRESETS[name]:
        raise ValueError(
            f"{name} has no settings for {algo!r}; it has {', '.join(PRESETS[name])}"
        )
    return PRESETS[name][algo]
