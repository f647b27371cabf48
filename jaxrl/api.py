"""What `import jaxrl` offers, beside the algorithms and the grid.

Each function imports what it needs when it is called, so that `import jaxrl` is cheap.
"""

import os
import typing
from collections.abc import Mapping

from jaxrl.errors import about_arguments

if typing.TYPE_CHECKING:
    from pathlib import Path

    import gymnasium

    from jaxrl.envs import GivenEnv
    from jaxrl.experiments.search import SearchResult
    from jaxrl.policy import Policy
    from jaxrl.training.session import Result
    from jaxrl.training.user_code import OnEpoch


@about_arguments()
def train(
    algo: str,
    env: "GivenEnv",
    *,
    preset: str = "default",
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
    **settings: typing.Any,
) -> "Result":
    """Does what `jaxrl train` does; returns the state, the rows of the log, the path.

    `jaxrl.train("sac", "Hopper-v4", steps=100_000, gamma=0.98)`: settings have the
    names of the command's flags. `env` may also be a callable that makes a gymnasium
    environment, or one environment, which then has no test episodes.
    `on_epoch(state, step)` is called after each epoch; the metrics it returns, such as
    {"nested/metric": 1.0}, are in the epoch's row.
    """
    from jaxrl.runs import spec
    from jaxrl.training import train, user_code

    given: Mapping[str, typing.Any] = settings
    name, own = user_code.named_env(env)
    if user_code.is_instance(own):
        given = {"num_test_episodes": 0, **given}
    user = user_code.UserCode(on_epoch=on_epoch, env=own)
    return train.train(spec.make(algo, name, given, preset), screen, user)


@about_arguments()
def resume(
    directory: "str | Path",
    steps: int | None = None,
    *,
    env: "GivenEnv | None" = None,
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
) -> "Result":
    """Continues a run as if it had never stopped; `steps` to train longer than planned.

    `env` is what the run was trained in, if that was given from Python.

    XLA's last bits depend on its number of threads: start Python with the `NPROC` that
    config.yaml names, as `jaxrl resume` does.
    """
    from jaxrl.training import train
    from jaxrl.training.user_code import UserCode

    user = UserCode(on_epoch=on_epoch, env=env)
    return train.resume(directory, steps, screen, user)


@about_arguments()
def search(
    space: Mapping[str, Mapping[str, list]],
    trials: int | None = None,
    *,
    algo: str,
    env: str,
    name: str = "search",
    out: str = "runs",
    jobs: int = 0,
    sampler: typing.Literal["tpe", "random", "qmc", "grid", "cmaes", "gp"] = "tpe",
    pruner: typing.Literal["median", "none"] = "median",
    storage: str = "",
    screen: bool = True,
    **settings: typing.Any,
) -> "SearchResult":
    """Does what `jaxrl search` does; returns the best settings and what they reached.

    `jaxrl.search({"lr": {"log_uniform": [1e-5, 1e-2]}}, algo="sac", env="Hopper-v4")`
    """
    from jaxrl.experiments import runner, search_file
    from jaxrl.experiments import search as searching
    from jaxrl.settings.values import plain

    asked = search_file.SearchSpec(
        name=name,
        fixed=plain({"algo": algo, "env": env, **settings}),
        space=search_file.ranges(space),
        out=out,
        trials=plain(trials),
        sampler=sampler,
        pruner=pruner,
        storage=storage,
    )
    return searching.run(asked, runner.Options(out=out, jobs=jobs, screen=screen))


def load(
    directory: "str | os.PathLike[str]",
    model: typing.Literal["last", "best"] | int = "last",
    *,
    env: "GivenEnv | None" = None,
) -> "tuple[Policy, gymnasium.Env]":
    """The greedy policy of a run and its environment: `env.step(policy(obs))`.

    `model` may be a step at which one was kept. `env` replaces the environment that
    the run names; it is needed where that was given from Python.
    """
    from jaxrl.show import agent

    return agent.load(directory, model, env=env)


def evaluate_policy(
    policy: typing.Callable[..., typing.Any],
    env: "gymnasium.Env",
    episodes: int = 10,
    seed: int = 0,
) -> tuple[float, float]:
    """Mean and standard deviation of the returns of `episodes` episodes."""
    from jaxrl import evaluation

    return evaluation.evaluate_policy(policy, env, episodes, seed)
