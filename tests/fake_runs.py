"""Directories of runs that were never trained, for what reads runs."""

import csv

import yaml

from jaxrl.runs import finding, reading


def write_run(root, name, seed, columns, algo="ppo", env="Hopper-v4", **settings):
    """A run as `jaxrl train` leaves it, with the given columns."""
    path = root / name / f"{name}_s{seed}"
    path.mkdir(parents=True, exist_ok=True)
    config = {"algo": algo, "env": env, "exp_name": name, "seed": seed}
    config["settings"] = {"max_ep_len": 1000, **settings}
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    with (path / "progress.csv").open("w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def log(steps, returns, **others):
    return {"TotalEnvInteracts": steps, "AverageEpRet": returns, **others}


def read_runs(*patterns):
    """The runs that paths and globs name."""
    return [reading.record(p) for p in finding.directories(map(str, patterns))]
