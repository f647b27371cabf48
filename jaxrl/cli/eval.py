"""`jaxrl eval DIR [--num_test_episodes N ...]`."""

import json
import os
import sys
from typing import Any

import numpy as np

from jaxrl import evaluation
from jaxrl.cli import options
from jaxrl.errors import UserError
from jaxrl.evaluation import EpisodeStep
from jaxrl.logging.terminal import table
from jaxrl.show import agent, statistics

# With fewer, even the whole range covers the median by less than 95 %: 1 - 2^(1 - n).
FEWEST = 6


def main(arguments: list[str]) -> int:
    given = options.parser("eval").parse(arguments)
    drawing = _in_a_window() if given.render else {}
    policy, env = agent.load(
        given.dir,
        given.model,
        given.max_len,
        code=agent.Code(algo=given.algo),
        explores=not given.deterministic,
        **drawing,
    )
    act = policy if given.deterministic else agent.exploring(policy, given.seed)
    episodes = []
    for step in evaluation.play(act, env, given.num_test_episodes, given.seed):
        if step.over:
            episodes.append(step)
            if not given.json:
                _print_episode(step)
    env.close()
    found = summary(episodes)
    if given.json:
        print(json.dumps(found | {"episodes": [_described(e) for e in episodes]}))
    else:
        print(table(found.items()))
    return 0


def _in_a_window() -> dict[str, str]:
    displays = ("DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform == "linux" and not any(os.environ.get(name) for name in displays):
        raise UserError("there is no display for --render; use jaxrl video instead")
    return {"render_mode": "human"}


def summary(episodes: list[EpisodeStep]) -> dict[str, float | None]:
    """Spinning Up's table, and the IQM with its 95 % bootstrap interval."""
    returns = np.array([episode.returned for episode in episodes])
    low = high = None
    if len(returns) >= FEWEST:
        low, high = statistics.bootstrap(returns, statistics.iqm)
    found: dict[str, Any] = {
        "AverageEpRet": returns.mean(),
        "StdEpRet": returns.std(),
        "MaxEpRet": returns.max(),
        "MinEpRet": returns.min(),
        "EpLen": np.mean([episode.length for episode in episodes]),
        "IqmEpRet": statistics.iqm(returns),
        "IqmLow": low,
        "IqmHigh": high,
    }
    return {name: None if x is None else float(x) for name, x in found.items()}


def _described(episode: EpisodeStep) -> dict[str, float]:
    return {"EpRet": episode.returned, "EpLen": episode.length}


def _print_episode(episode: EpisodeStep) -> None:
    returned, length = episode.returned, episode.length
    print(f"Episode {episode.episode:<3} EpRet {returned:9.3f}  EpLen {length}")
