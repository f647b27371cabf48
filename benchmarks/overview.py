"""One row for each algorithm: its file, its paper and a result, for the README."""

import learn
import suite

SHOWN = "Hopper-v4"  # of the suite
PAPERS = {
    "vpg": ("Schulman et al., 2016", "https://arxiv.org/abs/1506.02438"),
    "trpo": ("Schulman et al., 2015", "https://arxiv.org/abs/1502.05477"),
    "ppo": ("Schulman et al., 2017", "https://arxiv.org/abs/1707.06347"),
    "ddpg": ("Lillicrap et al., 2016", "https://arxiv.org/abs/1509.02971"),
    "td3": ("Fujimoto et al., 2018", "https://arxiv.org/abs/1802.09477"),
    "sac": ("Haarnoja et al., 2018", "https://arxiv.org/abs/1812.05905"),
}
VERDICTS = ("ahead", "level", "behind")


def rows() -> list[str]:
    """The table in Markdown, with links from the root of the repository."""
    head = "| algorithm | file | paper | return (Spinning Up) | five environments |"
    return [head, "| --- | --- | --- | --- | --- |", *map(row, suite.ALGOS)]


def row(algo: str) -> str:
    found = [cell for cell in suite.cells() if cell.algo == algo]
    author, address = PAPERS[algo]
    cells = (
        f"[{algo.upper()}](docs/algorithms/{algo}.md)",
        f"[{algo}.py](jaxrl/algos/{algo}.py)",
        f"[{author}]({address})",
        result(algo, found),
        verdicts(found) or "not finished",
    )
    return f"| {' | '.join(cells)} |"


def result(algo: str, found: list[suite.Cell]) -> str:
    """In the suite's SHOWN environment, or else in the last quick task."""
    for cell in found:
        if cell.env == SHOWN:
            returns = f"{cell.mean:.0f} ({cell.theirs:.0f})"
            return f"{returns}, {cell.env}, {cell.step:,} steps"
    known = learn.finished()
    for task in reversed(learn.TASKS):
        if task.algo == algo and (by_seed := learn.returns_of(task, known)):
            reached = learn.reached(task, by_seed)
            return f"{reached:.0f}, {task.env}, {task.steps:,} steps"
    return "not finished"


def verdicts(found: list[suite.Cell]) -> str:
    """How many environments of the suite have which verdict."""
    counts = {v: sum(cell.verdict == v for cell in found) for v in VERDICTS}
    return ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
