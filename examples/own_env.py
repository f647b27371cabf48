"""Your own environment: a function with wrappers, trained, resumed and played.

python examples/own_env.py

In a separate module, `my_module.py`, the function would have a name that every
command can find: `jaxrl train sac --env my_module:make_env`.
"""

import tempfile

import gymnasium

import jaxrl


def make_env(gravity: float = 10.0) -> gymnasium.Env:
    """A pendulum with smaller rewards and short episodes."""
    env = gymnasium.make("Pendulum-v1", g=gravity)
    env = gymnasium.wrappers.TransformReward(env, lambda reward: reward / 10)
    return gymnasium.wrappers.TimeLimit(env, 100)


with tempfile.TemporaryDirectory() as out:
    settings = {"steps_per_epoch": 1000, "start_steps": 500, "update_after": 500}
    result = jaxrl.train(
        "sac",
        make_env,
        steps=1000,
        hidden=(32, 32),
        env_kwargs={"gravity": 9.81},
        out=out,
        screen=False,
        **settings,
    )
    print(f"{result.history[-1]['TotalEnvInteracts']:.0f} steps")

    # Only this program has the function, so it is given again.
    result = jaxrl.resume(result.directory, steps=2000, env=make_env, screen=False)
    print(f"{result.history[-1]['TotalEnvInteracts']:.0f} steps")

    policy, env = jaxrl.load(result.directory, env=make_env)
    mean, std = jaxrl.evaluate_policy(policy, env, num_test_episodes=5)
    print(f"return {mean:.1f} ± {std:.1f}")
