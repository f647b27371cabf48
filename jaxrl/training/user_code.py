"""What a user hands over from Python, which settings cannot hold."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxrl import envs
from jaxrl.envs import GivenEnv
from jaxrl.errors import UserError
from jaxrl.runs.spec import Run

OnEpoch = Callable[[Any, int], dict[str, Any] | None]
"""`on_epoch(state, step)` may return metrics to log in the epoch's row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UserCode:
    """Objects of a user that take part in a run."""

    on_epoch: OnEpoch | None = None
    env: GivenEnv | None = None
    """What makes or is the environment, if no name finds it."""

    def check(self) -> None:
        """Refuses, before anything is removed, what would fail only later."""
        if self.on_epoch is not None and not callable(self.on_epoch):
            raise UserError(
                f"on_epoch is {self.on_epoch!r}, but must be a function or None"
            )

    def check_video(self, run: Run) -> None:
        """Refuses to record where only this process has the environment."""
        if run.video_every and run.env.startswith(envs.FROM_PYTHON):
            raise UserError(
                "--video_every records in another process, which cannot find this "
                "environment; define it in a module that can be imported, or record "
                "later with jaxrl.load(directory, env=...)"
            )

    def notes(self, run: Run) -> list[str]:
        """What the user should know before the run starts."""
        if self.env is None:
            return []
        found = [
            f"no command can find the environment {run.env}; use jaxrl.resume and "
            "jaxrl.load with env=..."
        ]
        if is_instance(self.env):
            found += ["one environment has no test episodes; a callable has"]
        return found


NONE = UserCode()


def named_env(env: GivenEnv) -> tuple[str, GivenEnv | None]:
    """How config.yaml names an environment, and the object if that cannot find it."""
    try:
        name = envs.name_of(env)
    except ValueError as error:
        raise UserError(str(error)) from None
    return name, env if name.startswith(envs.FROM_PYTHON) else None


def is_instance(env: GivenEnv | None) -> bool:
    """Whether it is one environment, which has none for test episodes."""
    return env is not None and envs.is_instance(env)


def resumed_env(run: Run, env: GivenEnv | None) -> GivenEnv | None:
    """The object for a run whose environment has no name; refuses another one."""
    if env is None or run.env.startswith(envs.FROM_PYTHON):
        return env
    name, _ = named_env(env)
    if name != run.env:
        raise UserError(
            f"the run was trained in {run.env}, but env is {name}; leave env out, or "
            "start a new run with it"
        )
    return None
