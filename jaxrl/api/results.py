"""What shows results: load, evaluate_policy, record_video, plot, report, load_model.

Each function imports what it needs when it is called, so that `import jaxrl` is cheap.
"""

import os
import sys
import typing
from collections.abc import Callable

from jaxrl.errors import about_arguments, as_arguments

if typing.TYPE_CHECKING:
    import types
    from pathlib import Path

    import gymnasium
    import matplotlib.figure

    from jaxrl.envs import GivenEnv
    from jaxrl.maths.nets import Networks
    from jaxrl.policy import Policy
    from jaxrl.runs.models import JaxPolicy
    from jaxrl.spaces import EnvSpec


@about_arguments()
def load(
    directory: "str | os.PathLike[str]",
    model: typing.Literal["last", "best"] | int = "last",
    *,
    env: "GivenEnv | None" = None,
    networks: "Networks | Callable[[EnvSpec], Networks] | None" = None,
    algo: "str | os.PathLike[str] | types.ModuleType" = "",
) -> "tuple[Policy | JaxPolicy, gymnasium.Env]":
    """The greedy policy of a run and its environment: `env.step(policy(obs))`.

    `model` may be a step at which one was kept. `env` replaces the environment that
    the run names; it is needed where that was given from Python. So are `networks`
    where config.yaml cannot name them, and `algo`, its file or module, where your
    own algorithm acts in a way that NumPy cannot play.
    """
    from jaxrl import algos
    from jaxrl.show import agent

    code = agent.Code(networks, algos.named(algo))
    return agent.load(directory, model, env=env, code=code)


def load_model(
    directory: "str | os.PathLike[str]", name: str = "last", like: typing.Any = None
) -> typing.Any:
    """A model that `Logger.save_model` saved: a tree of NumPy arrays.

    Named tuples and dataclasses come back as dicts of their fields; with `like`, the
    tree is one such as `like`.
    """
    from jaxrl.errors import UserError
    from jaxrl.runs import reading, trees

    record = reading.record(directory)
    if not record.is_own_loop:
        raise UserError(
            f"{record.path} is a run of jaxrl's algorithms; jaxrl.load gives its policy"
        )
    tree = trees.load(trees.model_file(record.path, name), inside=record.path)
    return tree if like is None else trees.fill(like, tree)


def record_video(
    policy: typing.Callable[..., typing.Any],
    env: "gymnasium.Env | str",
    video_path: "str | os.PathLike[str]",
    n_episodes: int = 1,
    seed: int = 0,
) -> "Path":
    """Records episodes as an .mp4 or .gif; returns its path.

    `policy(obs)` gives an action. An environment that was made without render_mode
    "rgb_array" is made again with it, if it has one; an id is enough too.
    """
    from pathlib import Path

    from jaxrl.settings.values import plain
    from jaxrl.show import video

    path = Path(os.fsdecode(_a_path(video_path, "video_path")))
    video.record(policy, env, path, plain(n_episodes), plain(seed))
    return path


@about_arguments()
def plot(
    paths: typing.Any,
    *,
    output: "str | os.PathLike[str] | None" = None,
    show: bool = False,
    **options: typing.Any,
) -> "matplotlib.figure.Figure":
    """Draws learning curves as `jaxrl plot` does; returns matplotlib's figure.

    `options` have the names of the command's flags: y, x, smooth, est, band, group,
    count, facet, select, exclude, legend, ref, suite. With `output` it is also written
    to a .png, .svg or .pdf.
    """
    from pathlib import Path

    from jaxrl.runs.listing import as_paths
    from jaxrl.settings.values import plain
    from jaxrl.show import picture
    from jaxrl.show import plot as drawing
    from jaxrl.show.writing import writing

    chosen = picture.Options.from_python(plain(options))
    if output is not None:
        output = Path(os.fsdecode(_a_path(output, "output")))
    made = picture.picture(as_paths(paths), chosen, print, _note)
    figure = drawing.figure(made.size, made.drawing)
    if output is not None:
        with writing(output, drawing.SUFFIXES) as path:
            drawing.save(path, figure)
    if show:
        drawing.show(made.size, made.drawing)
    return figure


@about_arguments()
def report(
    paths: typing.Any, output: "str | os.PathLike[str]" = "report.html"
) -> "Path":
    """Writes one page about runs, as `jaxrl report` does; returns its path."""
    from pathlib import Path

    from jaxrl.runs.listing import as_paths
    from jaxrl.show import report as page

    path = Path(os.fsdecode(_a_path(output, "output")))
    page.write(as_paths(paths), path, _note)
    return path


def _a_path(value: typing.Any, name: str) -> typing.Any:
    from jaxrl.errors import UserError

    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UserError(f"{name} is {value!r}, but must be the path of a file")
    return value


def _note(text: str) -> None:
    """What a picture or page leaves out, as the commands say it."""
    print(f"jaxrl: {as_arguments(text)}", file=sys.stderr)


def evaluate_policy(
    policy: typing.Callable[..., typing.Any],
    env: "gymnasium.Env",
    num_test_episodes: int = 10,
    seed: int = 0,
) -> tuple[float, float]:
    """Mean and standard deviation of the returns of `num_test_episodes` episodes."""
    from jaxrl import evaluation
    from jaxrl.settings.values import plain

    count = plain(num_test_episodes)
    return evaluation.evaluate_policy(policy, env, count, plain(seed))
