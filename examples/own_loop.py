"""Your own loop, logged as a run: cross-entropy search for a linear policy."""

from pathlib import Path

import gymnasium
import numpy as np

import jaxrl

EPOCHS, POLICIES, ELITE = 8, 20, 5


def episode(weights: np.ndarray, env: gymnasium.Env, seed: int) -> tuple[float, int]:
    """Return and length of an episode with a linear policy."""
    obs, _ = env.reset(seed=seed)
    total, length, over = 0.0, 0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(int(weights @ obs > 0))
        total, length, over = total + float(reward), length + 1, terminated or truncated
    return total, length


def main(out: str = "runs") -> None:
    env, rng, steps = gymnasium.make("CartPole-v1"), np.random.default_rng(0), 0
    mean, std = np.zeros(4), np.ones(4)
    config = {"env": "CartPole-v1", "policies": POLICIES, "elite": ELITE}
    directory = Path(out) / "cross-entropy" / "cross-entropy_s0"
    with jaxrl.Logger(directory, config, overwrite=True) as log:
        for epoch in range(EPOCHS):
            tried = mean + std * rng.standard_normal((POLICIES, 4))
            returns = []
            for weights in tried:
                returned, length = episode(weights, env, seed=epoch)
                returns.append(returned)
                log.store(EpRet=returned, EpLen=length)
                steps += length
            best = tried[np.argsort(returns)[-ELITE:]]
            mean, std = best.mean(axis=0), best.std(axis=0)
            log.store({"search/std": std})
            log.dump(step=steps)
            log.save_model("last", {"mean": mean, "std": std})
    jaxrl.plot(directory, output=directory / "curve.png")
    print(jaxrl.load_model(directory)["mean"], log.history[-1]["AverageEpRet"])


if __name__ == "__main__":
    main()
