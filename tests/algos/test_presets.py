"""Presets, against the numbers of the libraries they are named after."""

import jax
import pytest
from support import SPEC, algorithms, fake_batch, is_on_policy

from jaxrl import algos
from jaxrl.algos.presets import PRESETS, preset

NETWORKS = {"hidden": (64, 64), "activation": "tanh"}
ON_POLICY = {"gamma": 0.99, "lam": 0.97, "vf_lr": 1e-3, "train_v_iters": 80} | NETWORKS
OFF_POLICY = {"gamma": 0.99, "tau": 0.005, "hidden": (256, 256), "activation": "relu"}
RATES = {"pi_lr": 1e-3, "q_lr": 1e-3, "act_noise": 0.1}
SPINUP = {
    "vpg": ON_POLICY | {"pi_lr": 3e-4},
    "trpo": ON_POLICY
    | {"delta": 0.01, "damping_coeff": 0.1, "cg_iters": 10}
    | {"backtrack_iters": 10, "backtrack_coeff": 0.8},
    "ppo": ON_POLICY
    | {"pi_lr": 3e-4, "clip_ratio": 0.2, "train_pi_iters": 80, "target_kl": 0.01}
    | {"minibatches": 1, "entropy_coef": 0.0, "lr_decay": 0.0},
    "ddpg": OFF_POLICY | RATES,
    "td3": OFF_POLICY
    | RATES
    | {"target_noise": 0.2, "noise_clip": 0.5, "policy_delay": 2},
    "sac": OFF_POLICY | {"lr": 1e-3, "alpha": 0.2, "learn_alpha": False},
}
ON_POLICY_DATA = {
    "steps_per_epoch": 4000,
    "epochs": 50,
    "max_ep_len": 1000,
    "save_freq": 10,
}
OFF_POLICY_DATA = {
    "steps_per_epoch": 4000,
    "epochs": 100,
    "max_ep_len": 1000,
    "save_freq": 1,
    "replay_size": 1_000_000,
    "batch_size": 100,
    "start_steps": 10_000,
    "update_after": 1000,
    "update_every": 50,
    "num_test_episodes": 10,
}


@pytest.mark.parametrize("name", algos.NAMES)
def test_preset_spinup_equals_spinning_ups_defaults(name):
    config, data = preset("spinup", name)
    assert vars(config).items() >= SPINUP[name].items()
    expected = ON_POLICY_DATA if name in ("vpg", "trpo", "ppo") else OFF_POLICY_DATA
    assert vars(data).items() >= expected.items()


@algorithms
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_trained(algo, name, key):
    config, _ = preset(name, algo.__name__.rpartition(".")[2])
    state = algo.init(key, SPEC, config)
    lead = (40, 1) if is_on_policy(algo) else (100,)
    _, metrics = jax.jit(algo.update)(state, fake_batch(algo, key, lead=lead))
    assert metrics
