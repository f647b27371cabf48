"""A grid and a random search over your own function: gradient descent in NumPy.

python examples/own_function.py
"""

import json
import tempfile
from pathlib import Path

import numpy as np

import jaxrl
from jaxrl.sampling import choice, loguniform


def descend(directory, lr, momentum=0.0, steps=50, seed=0):
    """Minimizes a quadratic; writes its loss to `directory` and returns it."""
    x, velocity = np.random.default_rng(seed).normal(size=10), np.zeros(10)
    for _ in range(steps):
        velocity = momentum * velocity - lr * np.arange(1, 11) * x
        x = x + velocity
    loss = float(np.sum(np.arange(1, 11) * x**2) / 2)
    (Path(directory) / "loss.json").write_text(json.dumps(loss))
    return loss


def main(out):
    grid = jaxrl.Grid("descent").add("lr", [0.01, 0.1], "lr")
    grid.add("momentum", [0.0, 0.9], "mom").add("seed", [0, 1])
    grid.print()
    for run in grid.run(descend, jobs=2, out=out).finished:  # a process for each
        print(run.name, json.loads((run / "loss.json").read_text()))

    best = jaxrl.random_search(
        {"lr": lambda: loguniform(1e-3, 1), "momentum": lambda: choice([0.0, 0.9])},
        n_trials=10,
        evaluation_fn=lambda params: -descend(out, **params),  # higher is better
    )
    print("best", best.params, best.value)


# Each process of the grid imports this file to find the function, without this part.
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as out:
        main(out)
