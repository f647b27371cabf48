"""SAC learns the pendulum: a whole training loop around `sac.update`.

python examples/pendulum.py
"""

import gymnasium as gym
import jax
import numpy as np

from jaxrl import envs
from jaxrl.algos import sac
from jaxrl.types import Transition

STEPS, START_STEPS, UPDATE_EVERY, BATCH_SIZE = 10_000, 1000, 50, 128

env = gym.make("Pendulum-v1")
spec = envs.spec_of(env)
state = sac.init(jax.random.key(0), spec, sac.Config(hidden=(64, 64), lr=1e-3))

act = jax.jit(sac.act)
scan_updates = jax.jit(lambda s, batches: jax.lax.scan(sac.update, s, batches))
rng = np.random.default_rng(0)
replay: list[Transition] = []
returns, total = [], 0.0
obs, _ = env.reset(seed=0)

for step in range(1, STEPS + 1):
    if step <= START_STEPS:
        action = rng.uniform(-1, 1, spec.action.size).astype(np.float32)
    else:
        action = np.asarray(act(state, obs, jax.random.key(step)))
    next_obs, reward, terminated, truncated, _ = env.step(spec.action.scale(action))
    replay.append(
        Transition(obs, action, np.float32(reward), next_obs, terminated, truncated)
    )
    obs, total = next_obs, total + reward
    if terminated or truncated:
        returns.append(total)
        obs, total = env.reset()[0], 0.0
    if step >= START_STEPS and step % UPDATE_EVERY == 0:
        # As many updates as steps, in one compiled call.
        rows = rng.integers(len(replay), size=UPDATE_EVERY * BATCH_SIZE)
        flat = Transition(*map(np.stack, zip(*(replay[i] for i in rows), strict=True)))
        batches = jax.tree.map(lambda x: x.reshape(-1, BATCH_SIZE, *x.shape[1:]), flat)
        state, metrics = scan_updates(state, batches)
    if step % 1000 == 0:
        recent = np.mean(returns[-5:])
        print(f"step {step:6}   mean return of the last five episodes {recent:8.1f}")
