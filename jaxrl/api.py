"""What `import jaxrl` offers, beside the algorithms and the grid.

Each function imports what it needs when it is called, so that `import jaxrl` is cheap.
"""

import os
import typing
from collections.abc import Callable, Mapping

from jaxrl.errors import about_arguments

if typing.TYPE_CHECKING:
    import types
    from pathlib import Path

    import gymnasium

    from jaxrl.experiments.search import SearchResult
    from jaxrl.maths.nets import Networks
    from jaxrl.policy import Policy
    from jaxrl.runs.models import JaxPolicy
    from jaxrl.spaces import EnvSpec
    from jaxrl.training.session import Result
    from jaxrl.training.user_code import OnEpoch


@about_arguments()
def train(
    algo: "str | os.PathLike[str] | types.ModuleType",
    env: str,
    *,
    preset: str = "default",
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
    networks: "str | Networks | Callable[[EnvSpec], Networks] | None" = None,
    **settings: typing.Any,
) -> "Result":
    """Does what `jaxrl train` does; returns the state, the rows of the log, the path.

    `jaxrl.train("sac", "Hopper-v4", steps=100_000, gamma=0.98)`: settings have the
    names of the command's flags. `on_epoch(state, step)` is called after each epoch;
    the metrics it returns, such as {"nested/metric": 1.0}, are in the epoch's row.
    `algo` may be a .py file with an algorithm of your own, or its module; `networks`
    Linen modules, or what returns them for a spec, or its name "module:callable".
    """
    from jaxrl.runs import spec
    from jaxrl.training import train
    from jaxrl.training.user_code import UserCode, named_networks

    given: Mapping[str, typing.Any] = settings | named_networks(networks)
    own = None if isinstance(networks, str) else networks
    user = UserCode(on_epoch=on_epoch, networks=own)
    return train.train(spec.make(algo, env, given, preset), screen, user)


@about_arguments()
def resume(
    directory: "str | Path",
    steps: int | None = None,
    *,
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
    networks: "Networks | Callable[[EnvSpec], Networks] | None" = None,
    changed_code: bool = False,
) -> "Result":
    """Continues a run as if it had never stopped; `steps` to train longer than planned.

    `networks` are needed again where config.yaml cannot name them. A run with an
    algorithm of your own runs its file, and refuses one that has changed unless
    `changed_code` is True.

    XLA's last bits depend on its number of threads: start Python with the `NPROC` that
    config.yaml names, as `jaxrl resume` does.
    """
    from jaxrl.training import train
    from jaxrl.training.user_code import UserCode

    user = UserCode(on_epoch=on_epoch, networks=networks)
    return train.resume(directory, steps, screen, user, changed_code)


@about_arguments()
def search(
    space: Mapping[str, Mapping[str, list]],
    trials: int | None = None,
    *,
    algo: "str | os.PathLike[str] | types.ModuleType",
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
    from jaxrl import algos
    from jaxrl.experiments import runner, search_file
    from jaxrl.experiments import search as searching
    from jaxrl.settings.values import plain

    asked = search_file.SearchSpec(
        name=name,
        fixed=plain({"algo": algos.named(algo), "env": env, **settings}),
        space=search_file.ranges(space),
        out=out,
        trials=plain(trials),
        sampler=sampler,
        pruner=pruner,
        storage=storage,
    )
    return searching.run(asked, runner.Options(out=out, jobs=jobs, screen=screen))


@about_arguments()
def load(
    directory: "str | os.PathLike[str]",
    model: typing.Literal["last", "best"] | int = "last",
    *,
    networks: "Networks | Callable[[EnvSpec], Networks] | None" = None,
    algo: "str | os.PathLike[str] | types.ModuleType" = "",
) -> "tuple[Policy | JaxPolicy, gymnasium.Env]":
    """The greedy policy of a run and its environment: `env.step(policy(obs))`.

    `model` may be a step at which one was kept. `networks` are needed again where
    config.yaml cannot name them, `algo` where an algorithm of your own acts in a way
    that NumPy cannot play: its file or module.
    """
    from jaxrl import algos
    from jaxrl.show import agent

    code = agent.Code(networks, algos.named(algo))
    return agent.load(directory, model, code=code)


def evaluate_policy(
    policy: typing.Callable[..., typing.Any],
    env: "gymnasium.Env",
    episodes: int = 10,
    seed: int = 0,
) -> tuple[float, float]:
    """Mean and standard deviation of the returns of `episodes` episodes."""
    from jaxrl import evaluation

    return evaluation.evaluate_policy(policy, env, episodes, seed)
