"""Tables of an algorithm's settings, columns and results, made from code and data."""

import contextlib
import io
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import verify
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from jaxrl import algos
from jaxrl.logging.columns import columns, columns_of
from jaxrl.runs.spec import known_settings
from jaxrl.settings.values import kind, shown
from jaxrl.types import Algorithm, Box, EnvSpec, OnPolicy, Transition

SPEC = EnvSpec(obs_size=3, action=Box((-1.0,), (1.0,)))
INTERNAL = ("total_updates",)  # follows from other settings
RETURN = "Returns of the {} that ended in the epoch"
MEANINGS = {
    "Epoch": "Number of the epoch, from 1",
    "EpRet": RETURN.format("training episodes"),
    "TestEpRet": "Returns of the greedy test episodes after the epoch",
    "EpLen": "Mean length of the training episodes",
    "TestEpLen": "Mean length of the test episodes",
    "TotalEnvInteracts": "Environment steps so far, of all processes",
    "VVals": "V(s) of the rollout, in the units of the rewards",
    "QVals": "Q(s, a) of the replayed transitions",
    "Q1Vals": "The same, first critic",
    "Q2Vals": "The same, second critic",
    "LogPi": "Log-probability of the policy's own actions; minus its entropy",
    "LossPi": "Policy loss before the update",
    "LossV": "Loss of V before the update, on the scale of the network's output",
    "LossQ": "Loss of the critics, summed over them",
    "DeltaLossPi": "Change of the policy loss by the update; below 0 if it improved",
    "DeltaLossV": "Change of the loss of V by the update",
    "Entropy": "Entropy of the policy before the update, summed over dimensions",
    "KL": "KL(old ‖ new) after the update",
    "ClipFrac": "Fraction of samples whose ratio is outside the clip range",
    "StopIter": "Policy steps made before the KL limit",
    "BacktrackIters": "Step sizes that the line search rejected",
    "ExplainedVariance": "Of the returns by V: 1 is perfect, 0 as good as a constant",
    "Alpha": "Temperature: the weight of the entropy",
    "LossAlpha": "Loss of the temperature",
    "LearningRate": "Of the policy, after decay",
    "Time": "Seconds since the start of the run, without pauses",
    "StepsPerSecond": "Environment steps per second in the epoch",
    "EnvSeconds": "Seconds of the epoch in the environments",
    "ActSeconds": "Seconds of the epoch in the policy that acts",
    "UpdateSeconds": "Seconds of the epoch in updates",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(escaped, line)) + " |" for line in lines)


def escaped(cell: str) -> str:
    return cell.replace("|", r"\|")


class Settings(SphinxDirective):
    """`algo-settings ALGO`: the algorithm's own settings, those of its data, or all."""

    required_arguments = 1
    option_spec: ClassVar = {"owner": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        algo, owner = self.arguments[0], self.options.get("owner", "config")
        known, spinup = known_settings(algo), known_settings(algo, "spinup")
        chosen = {k: x for k, x in known.items() if x.owner == owner}
        others = any(spinup[k].default != x.default for k, x in chosen.items())
        rows = []
        for name, setting in chosen.items():
            if name in INTERNAL:
                continue
            other = spinup[name].default
            row = [f"`--{name}`", f"`{kind(setting.hint)}`", code(setting.default)]
            row += [code(other) if other != setting.default else ""] if others else []
            rows.append([*row, setting.help])
        header = ["setting", "value", "default", *["spinup"] * others, "meaning"]
        return unbroken(self.parse_text_to_nodes(table(header, rows)))


def unbroken(made: list[nodes.Node]) -> list[nodes.Node]:
    """With tables whose code is not broken into lines."""
    for part in made:
        for found in part.findall(nodes.table):
            found["classes"].append("nowrap")
    return made


def code(value: object) -> str:
    return f"`{shown(value)}`" if shown(value) else ""


class Columns(SphinxDirective):
    """`algo-columns ALGO`: what a run of it writes to progress.csv, in order."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = algos.get(self.arguments[0])
        names, spread = columns(metrics(module), 0, module.DATA.num_test_episodes)
        if missing := [name for name in names if name not in MEANINGS]:
            raise self.error(f"{__file__} has no meaning of {', '.join(missing)}")
        rows = [[", ".join(shown_columns(n, n in spread)), MEANINGS[n]] for n in names]
        return self.parse_text_to_nodes(table(["columns", "meaning"], rows))


def shown_columns(name: str, spread: bool) -> list[str]:
    return [f"`{column}`" for column in columns_of(name, spread)]


def metrics(module: Algorithm) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of those of one update."""
    shape = (64, 1) if isinstance(module.DATA, OnPolicy) else (64,)
    rows, obs = jnp.zeros(shape), jnp.zeros((*shape, SPEC.obs_size))
    batch = Transition(obs, jnp.zeros((*shape, 1)), rows, obs, rows > 0, rows > 0)

    def first_update(key: jax.Array, batch: Transition) -> dict:
        return module.update(module.init(key, SPEC), batch)[1]

    return jax.eval_shape(first_update, jax.random.key(0), batch)


class Benchmark(SphinxDirective):
    """`benchmark NAME`: a table of benchmarks/verify.py, or the rows of `:only:`."""

    required_arguments = 1
    option_spec: ClassVar = {"only": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(verify.figures.FOLDER))
        with contextlib.redirect_stderr(io.StringIO()):
            lines = verify.TABLES[self.arguments[0]]()
        only = self.options.get("only", "").lower()
        rows = [line for line in lines[2:] if line.lower().startswith(f"| {only}")]
        if not rows:
            return self.parse_text_to_nodes("No results yet.")
        return self.parse_text_to_nodes("\n".join([*lines[:2], *rows]))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("algo-settings", Settings)
    app.add_directive("algo-columns", Columns)
    app.add_directive("benchmark", Benchmark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
