"""Users' algorithms for tests: copies of jaxrl's, whole or with a fault."""

from pathlib import Path

from jaxrl import algos
from jaxrl.cli.main import main

# Each with the text of sac.py that it replaces, and the contract that finds it.
FAULTS = {
    "impure": (
        '    checks.batch(batch, "sac", ("B",))\n',
        '    checks.batch(batch, "sac", ("B",))\n'
        "    import numpy as np\n\n"
        "    batch = batch._replace(reward=batch.reward + np.random.normal())\n",
        "pure",
    ),
    "dtype": (
        "target=optim.polyak(state.target, critic.params, cfg.tau)",
        "target=jax.tree.map(lambda x: x.astype(jnp.bfloat16), critic.params)",
        "state keeps its form",
    ),
    "retraced": (
        'metadata={"static": True})\n\n\ndef init(',
        'metadata={"static": True})\n'
        '    updates: int = dataclasses.field(default=0, metadata={"static": True})\n'
        "\n\ndef init(",
        "compiles once",
    ),
    "pmean": (
        "critics.q_loss, *critic_data, pmean=pmean",
        "critics.q_loss, *critic_data, pmean=identity",
        "two devices",
    ),
    "sign": ("* log_prob - q)", "* log_prob + q)", "probe chosen"),
}


def copy(folder: Path, algo: str = "sac", name: str = "my_sac.py") -> Path:
    """What `jaxrl new` writes."""
    path = folder / name
    assert main(["new", str(path), "--from", algo]) == 0
    return path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    path.write_text(text.replace(old, new))


def faulty(folder: Path, fault: str) -> tuple[Path, str]:
    """A copy of SAC with the fault, and the contract that finds it."""
    path = copy(folder, name=f"sac_{fault}.py")
    old, new, contract = FAULTS[fault]
    change(path, old, new)
    if fault == "retraced":
        replaced = "        key=key,\n    )\n    return state, info"
        change(
            path,
            replaced,
            replaced.replace(
                "key=key,\n", "key=key,\n        updates=state.updates + 1,\n"
            ),
        )
    return path, contract


def module(path: Path):
    return algos.get(str(path))
