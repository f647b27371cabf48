"""What `import jaxrl` offers, beside the algorithms and the grid.

Each function imports what it needs when it is called, so that `import jaxrl` is cheap.
"""

import os
import typing
from collections.abc import Mapping, Sequence

from jaxrl.errors import about_arguments

if typing.TYPE_CHECKING:
    from pathlib import Path

    import gymnasium

    from jaxrl.experiments.search import SearchResult
    from jaxrl.policy import Policy
    from jaxrl.training.session import Result
    from jaxrl.training.user_code import OnEpoch


@about_arguments()
def train(
    algo: str,
    env: str,
    *,
    preset: str = "default",
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
    callbacks: Sequence[typing.Any] | None = None,
    **settings: typing.Any,
) -> "Result":
    """Does what `jaxrl train` does; returns the state, the rows of the log, the path.

    `jaxrl.train("sac", "Hopper-v4", steps=100_000, gamma=0.98)`: settings have the
    names of the command's flags. `on_epoch(state, step)` is called after each epoch;
    the metrics it returns, such as {"nested/metric": 1.0}, are in the epoch's row.
    `callbacks` are objects as in `jaxrl.callbacks`.
    """
    from jaxrl.runs import spec
    from jaxrl.training import train
    from jaxrl.training.user_code import UserCode

    given: Mapping[str, typing.Any] = settings
    user = UserCode(on_epoch=on_epoch, callbacks=callbacks)
    return train.train(spec.make(algo, env, given, preset), screen, user)


@about_arguments()
def resume(
    directory: "str | Path",
    steps: int | None = None,
    *,
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
    callbacks: Sequence[typing.Any] | None = None,
) -> "Result":
    """Continues a run as if it had never stopped; `steps` to train longer than planned.

    If the run's callbacks have a state, `callbacks` must be of the same classes in the
    same order; [] drops them. A run that a callback has finished needs `steps`.

    XLA's last bits depend on its number of threads: start Python with the `NPROC` that
    config.yaml names, as `jaxrl resume` does.
    """
    from jaxrl.training import train
    from jaxrl.training.user_code import UserCode

    user = UserCode(on_epoch=on_epoch, callbacks=callbacks)
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
) -> "tuple[Policy, gymnasium.Env]":
    """The greedy policy of a run and its environment: `env.step(policy(obs))`.

    `model` may be a step at which one was kept.
    """
    from jaxrl.show import agent

    return agent.load(directory, model)


def evaluate_policy(
    policy: typing.Callable[..., typing.Any],
    env: "gymnasium.Env",
    episodes: int = 10,
    seed: int = 0,
) -> tuple[float, float]:
    """Mean and standard deviation of the returns of `episodes` episodes."""
    from jaxrl import evaluation

    return evaluation.evaluate_policy(policy, env, episodes, seed)
