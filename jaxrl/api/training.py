"""What trains: train, resume, search, random_search.

Each function imports what it needs when it is called, so that `import jaxrl` is cheap.
"""

import os
import typing
from collections.abc import Callable, Mapping, Sequence

from jaxrl.errors import about_arguments

if typing.TYPE_CHECKING:
    import types
    from pathlib import Path

    from jaxrl.envs import GivenEnv
    from jaxrl.experiments.random_search import BestSettings
    from jaxrl.experiments.search import SearchResult
    from jaxrl.maths.nets import Networks
    from jaxrl.runs.spec import Run
    from jaxrl.spaces import EnvSpec
    from jaxrl.training.session import Result
    from jaxrl.training.user_code import OnEpoch


@about_arguments()
def train(
    algo: "str | os.PathLike[str] | types.ModuleType | Mapping[str, typing.Any]",
    env: "GivenEnv | None" = None,
    *,
    preset: str | None = None,
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
    networks: "str | Networks | Callable[[EnvSpec], Networks] | None" = None,
    callbacks: Sequence[typing.Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    **settings: typing.Any,
) -> "Result | list[Result]":
    """Does what `jaxrl train` does; returns the state, the rows of the log, the path.

    `jaxrl.train("sac", "Hopper-v4", steps=100_000, gamma=0.98)`: settings have the
    names of the command's flags; all may come as one dict instead of `algo`, flat or in
    sections, and arguments override it. `algo` may be your own .py file or its module.
    `env` may also be a callable that makes a gymnasium environment, or one environment,
    which then has no test episodes. `networks` are Linen modules, or what returns them
    for a spec, or its name "module:callable".

    `on_epoch(state, step)` is called after each epoch; the metrics it returns, such as
    {"nested/metric": 1.0}, are in the epoch's row. `callbacks`: see `jaxrl.callbacks`.
    In a JAX environment, `seeds=16` or `seeds=[3, 5, 8]` trains several runs in one
    program and returns a list. `num_procs=4` starts four processes and returns what
    rank 0 would; `on_epoch` and the like need `mpirun -n 4 python script.py` instead.
    """
    from jaxrl.runs import packing
    from jaxrl.training import launch, packed, train, user_code

    config = settings | user_code.named_networks(networks)
    run, own_env = _run(algo, env, preset, config)
    own_networks = None if isinstance(networks, str) else networks
    user = user_code.UserCode(
        on_epoch=on_epoch, callbacks=callbacks, env=own_env, networks=own_networks
    )
    if seeds is not None:
        return packed.train_seeds(run, packing.seeds(seeds, run.seed), screen, user)
    if ranks := launch.ranks_to_start(run.num_procs, user):
        return launch.train(run, ranks, screen)
    return train.train(run, screen, user)


def _run(
    algo: typing.Any, env: typing.Any, preset: str | None, settings: dict
) -> "tuple[Run, GivenEnv | None]":
    """The run that the arguments describe, and an environment that has no name."""
    from jaxrl.algos import presets
    from jaxrl.experiments import values
    from jaxrl.runs import nested, spec
    from jaxrl.training import user_env

    config = nested.flat(algo, "the config") if isinstance(algo, Mapping) else {}
    given = config | settings
    chosen, place = given.pop("algo", algo), given.pop("env", None)
    start = given.pop("preset", presets.AUTO)
    values.refuse_lists(chosen, place if env is None else env, given)
    name, own_env = user_env.named_env(place if env is None else env)
    if user_env.is_instance(own_env):
        given = {"num_test_episodes": 0, **given}
    return spec.make(chosen, name, given, preset or str(start)), own_env


@about_arguments()
def resume(
    directory: "str | Path",
    steps: int | None = None,
    *,
    env: "GivenEnv | None" = None,
    screen: bool = True,
    on_epoch: "OnEpoch | None" = None,
    callbacks: Sequence[typing.Any] | None = None,
    networks: "Networks | Callable[[EnvSpec], Networks] | None" = None,
    wandb: bool = False,
    changed_code: bool = False,
) -> "Result":
    """Continues a run, bit for bit; `steps` replaces its total number of steps.

    `env` is what the run was trained in, if that was given from Python.
    If the run's callbacks have a state, `callbacks` must be of the same classes in the
    same order; [] drops them. A run that a callback has finished needs `steps`.
    Nothing is sent to Weights & Biases without `wandb`: the run may be a stranger's.
    `networks` are needed again where config.yaml cannot name them. A run with your own
    algorithm runs its file, and refuses one that has changed unless `changed_code` is
    True.

    XLA's last bits depend on its number of threads: start Python with the `NPROC` that
    config.yaml names, as `jaxrl resume` does.
    """
    from jaxrl.errors import UserError
    from jaxrl.runs import reading
    from jaxrl.settings.values import plain
    from jaxrl.training import launch, train
    from jaxrl.training.user_code import UserCode

    steps = plain(steps)
    if steps is not None and (type(steps) is not int or steps < 1):
        raise UserError(f"steps is {steps!r}, but must be a whole number >= 1")
    user = UserCode(on_epoch=on_epoch, callbacks=callbacks, env=env, networks=networks)
    record = reading.record(directory)
    if ranks := launch.ranks_to_start(record.num_procs, user):
        return launch.resume(record.path, steps, ranks, screen, wandb, changed_code)
    return train.resume(directory, steps, screen, user, wandb, changed_code)


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
def random_search(
    param_space: Mapping[str, typing.Any],
    n_trials: int,
    evaluation_fn: typing.Callable[[dict[str, typing.Any]], typing.Any],
    seed: int = 0,
    *,
    screen: bool = True,
) -> "BestSettings":
    """Calls `evaluation_fn(params)` with `n_trials` draws; returns the best settings.

    `param_space` has a function without arguments for each setting that is drawn, as
    in {"lr": lambda: loguniform(1e-5, 1e-2)} with `jaxrl.sampling`'s `loguniform`,
    `uniform`, `randint` or `choice`, or your own with `random` or `numpy.random`; any
    other value is a constant. `evaluation_fn` returns a number, of which higher is
    better, or what `jaxrl.train` returns, which counts by the mean return of its last
    five epochs. A trial that fails, or returns NaN, is reported and does not end the
    search. The result is a dict with `.params`, `.value` and `.trials`.
    """
    from jaxrl.experiments import random_search

    return random_search.run(param_space, n_trials, evaluation_fn, seed, screen)
