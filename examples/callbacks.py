"""Callbacks: your own metric, early stopping, and state that survives a kill.

Training stops when the mean return of the last three epochs is above the target. Kill
it and call `jaxrl.resume(directory, callbacks=[...])` with new objects of the same
classes: it stops at the same epoch as an uninterrupted run.
"""

import jax
import numpy as np

import jaxrl
from jaxrl.callbacks import Context, StopWithoutImprovement


class WeightNorm:
    """Logs the norm of the policy's parameters."""

    def on_epoch(self, context: Context) -> dict:
        weights = jax.tree.leaves(context.state.actor.params)
        return {"WeightNorm": np.sqrt(sum(float((w**2).sum()) for w in weights))}


class StopAtSmoothedReturn:
    """Stops when the mean return over some epochs reaches a target."""

    def __init__(self, target: float, epochs: int) -> None:
        self.target, self.epochs = target, epochs
        self.returns: list[float] = []

    def on_epoch(self, context: Context) -> jaxrl.callbacks.Stop | None:
        if context.mean_return is not None:
            self.returns = [*self.returns, context.mean_return][-self.epochs :]
        if len(self.returns) == self.epochs and np.mean(self.returns) > self.target:
            return jaxrl.STOP(f"mean return {np.mean(self.returns):.0f}")
        return None

    def state(self) -> dict:
        return {"returns": self.returns}

    def restore(self, state: dict) -> None:
        self.returns = state["returns"]


if __name__ == "__main__":
    result = jaxrl.train(
        "ppo",
        "CartPole-v1",
        steps=100_000,
        steps_per_epoch=1024,
        minibatches=8,
        pi_lr=3e-3,
        vf_lr=3e-3,
        exp_name="callbacks",
        overwrite=True,
        screen=False,
        callbacks=[
            WeightNorm(),
            StopAtSmoothedReturn(target=100, epochs=3),
            StopWithoutImprovement(epochs=30),
        ],
    )
    for row in result.history:
        print(f"{row['TotalEnvInteracts']:.0f} {row['AverageEpRet']:.1f}", end=" ")
        print(f"{row['WeightNorm']:.2f}")
    print(result.reason)
