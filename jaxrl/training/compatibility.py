"""Whether an algorithm can act in an environment, known before a run is started."""

from jaxrl import checks, envs
from jaxrl.runs.spec import Run
from jaxrl.types import OffPolicy


def fault(run: Run) -> str:
    """Why it cannot; "" if it can, or if only a module of the user's could tell."""
    # In MuJoCo's, all can act, and to make one prints warnings.
    if envs.is_foreign(run.env) or envs.is_mujoco(run.env):
        return ""
    try:
        env = envs.single(run.env, run.data.max_ep_len, run.env_kwargs)
        env.close()
    except ValueError as error:
        return str(error)
    except Exception:  # the environment's own, which the run will tell better
        return ""
    try:
        needs_bounds = isinstance(run.data, OffPolicy)
        checks.spec(envs.spec_of(env), run.algo, "bounded" if needs_bounds else "any")
    except ValueError as error:
        return f"in {run.env} {error}"
    return ""
