"""Your own algorithm: a copy of SAC, changed, trained, and compared in a grid.

python examples/own_algorithm.py

Then: jaxrl check ./mean_sac.py tests what training relies on.
"""

import subprocess
import sys
from pathlib import Path

import jaxrl

SMALL = {"steps": 600, "steps_per_epoch": 200, "start_steps": 100, "update_after": 100}
SMALL |= {"hidden": (32, 32), "num_test_episodes": 1}

# 1. `jaxrl new mean_sac.py --from sac` writes a copy; it overwrites nothing.
path = Path("mean_sac.py")
path.unlink(missing_ok=True)
new = [sys.executable, "-m", "jaxrl", "new", str(path), "--from", "sac"]
subprocess.run(new, check=True)

# 2. A change: targets use the critics' mean instead of their minimum, as a setting.
text = path.read_text()
text = text.replace(
    "    tau: Fraction = 0.005",
    '    optimism: Fraction = 1.0\n    """0: the lowest critic; 1: their mean."""\n'
    "    tau: Fraction = 0.005",
)
text = text.replace(
    "    soft_value = q.min(axis=0)",
    "    share = state.config.optimism\n"
    "    q = share * q.mean(axis=0) + (1 - share) * q.min(axis=0)\n"
    "    soft_value = q",
)
path.write_text(text)

# 3. It trains as the others do: `jaxrl train ./mean_sac.py --env Pendulum-v1`.
result = jaxrl.train(path, "Pendulum-v1", screen=False, overwrite=True, **SMALL)
print("trained in", result.directory)

# 4. In a grid its settings are axes.
grid = jaxrl.Grid("optimism").add("algo", path).add("env", "Pendulum-v1")
grid.add("optimism", [0.0, 1.0])
for name, value in SMALL.items():
    grid.add(name, [value])
summary = grid.run(jobs=2, screen=False, overwrite=True)
print(f"{len(summary.finished)} runs finished, {len(summary.failed)} failed")
