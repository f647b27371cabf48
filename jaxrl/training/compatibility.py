"""Checks, before a run starts, that its algorithm can act in its environment."""

from jaxrl import checks, envs
from jaxrl.algos import label
from jaxrl.runs.spec import Run
from jaxrl.types import OffPolicy


def fault(run: Run) -> str:
    """Why it cannot; "" if it can, or if a user's module must be imported to know."""
    # All can act in MuJoCo's, and making one prints warnings.
    if envs.is_foreign(run.env) or envs.is_mujoco(run.env):
        return ""
    try:
        limit = run.data.max_ep_len
        env, spec = envs.single_with_spec(run.env, limit, run.env_kwargs)
        env.close()
    except ValueError as error:
        return str(error)
    except Exception:  # the environment's own error, which the run will show
        return ""
    try:
        needs_bounds = isinstance(run.data, OffPolicy)
        algo = label(run.algo)
        checks.spec(spec, algo, "bounded" if needs_bounds else "any")
    except ValueError as error:
        return f"in {run.env} {error}"
    return ""
