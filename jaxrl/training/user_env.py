"""The environment that a user gives from Python: its name, and what needs one."""

from jaxrl import envs
from jaxrl.envs import GivenEnv
from jaxrl.errors import UserError
from jaxrl.runs.spec import Run


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


def check_video(run: Run) -> None:
    """Refuses to record where only this process has the environment."""
    if run.video_every and run.env.startswith(envs.FROM_PYTHON):
        raise UserError(
            "--video_every records in another process, which cannot find this "
            "environment; define it in a module that can be imported, or record "
            "later with jaxrl.load(directory, env=...)"
        )


def notes(run: Run, env: GivenEnv | None) -> list[str]:
    """What the user should know before the run starts."""
    if env is None:
        return []
    found = [
        f"no command can find the environment {run.env}; use jaxrl.resume and "
        "jaxrl.load with env=..."
    ]
    if is_instance(env):
        found += ["one environment has no test episodes; a callable has"]
    return found
