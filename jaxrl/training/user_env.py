"""The environment that a user gives from Python: its name, and what needs one."""

from jaxrl import envs
from jaxrl.algos import is_file, presets
from jaxrl.algos.presets import DEFAULT
from jaxrl.envs import GivenEnv, jax_finding
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


def note_on_preset(run: Run, env: GivenEnv | None) -> list[str]:
    """Which defaults were chosen by the environment, or could have been."""
    if run.preset != DEFAULT and run.preset == presets.for_env(run.env):
        changed = presets.changes(run.preset, run.algo)
        values = vars(run.data) | vars(run.config)
        kept = [f"{k} {values[k]}" for k, x in changed.items() if values[k] == x]
        name, family = run.preset, run.env.partition("/")[0]
        said = f"--preset {name}, for {family}/: {', '.join(kept)}"
        return [f"{said}; --preset {DEFAULT} has others"] if kept else []
    own = run.env if env is None else env
    plain = run.preset == DEFAULT and run.data.num_envs == 1 and not is_file(run.algo)
    if plain and jax_finding.is_own(own):
        return ["num_envs is 1; the defaults for JAX environments are in --preset jax"]
    return []


def note_on_swimmer(run: Run) -> list[str]:
    """Its reward comes so late that the usual discount hides it."""
    name = run.env.rpartition(":")[2].rpartition("/")[2]
    if name.startswith("Swimmer-v") and getattr(run.config, "gamma", 1) < 0.999:
        return ["--gamma 0.9999 may learn Swimmer far better (benchmarks/TUNING.md)"]
    return []


def notes(run: Run, env: GivenEnv | None) -> list[str]:
    """What the user should know before the run starts."""
    found = note_on_preset(run, env) + note_on_swimmer(run)
    if env is None:
        return found
    found += [
        f"no command can find the environment {run.env}; use jaxrl.resume and "
        "jaxrl.load with env=..."
    ]
    if is_instance(env):
        found += ["one environment has no test episodes; a callable has"]
    return found
