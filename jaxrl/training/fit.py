"""Whether an algorithm can act in an environment, known before a run is started."""

from jaxrl import checks, envs
from jaxrl.runs.spec import Run
from jaxrl.types import OffPolicy


def fault(run: Run) -> str:
    """Why it cannot; "" if it can, or if only a module of the user's could tell."""
    if envs.is_foreign(run.env):
        return ""
    try:
        env = envs.single(run.env, run.data.max_ep_len, run.env_kwargs)
        spec = envs.spec_of(env)
        env.close()
        checks.spec(
            spec, run.algo, "bounded" if isinstance(run.data, OffPolicy) else "any"
        )
    except ValueError as error:
        return str(error)
    except Exception:  # the environment's own, which the run will tell better
        return ""
    return ""
