"""Grids: what their variants are and how they are named, and mistakes in them."""

import itertools
import re
import textwrap
import time

import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from jaxrl.algos import NAMES
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.experiments import grid_file
from jaxrl.experiments.combinations import default_shorthand
from jaxrl.experiments.grid import Grid
from jaxrl.runs import spec, status

# Spinning Up's order, nesting and names


def test_the_first_setting_varies_slowest():
    grid = Grid("x").add("a", [1, 2]).add("seed", [0, 1]).add("b", (3, 4))
    assert grid.variants() == [
        {"a": a, "seed": seed, "b": (3, 4)} for a in (1, 2) for seed in (0, 1)
    ]


def test_a_key_with_colons_is_a_part_of_a_mapping():
    grid = Grid("x").add("env_kwargs:a:b", [1, 2]).add("env_kwargs:c", "7")
    assert grid.variants()[1] == {"env_kwargs": {"a": {"b": 2}, "c": 7}}
    merged = Grid("x").add("env_kwargs", {"a": 1}).add("env_kwargs:b", [2, 3])
    assert merged.variants()[0] == {"env_kwargs": {"a": 1, "b": 2}}
    for bad in (
        Grid("x").add("steps", 4).add("steps:b", 2),
        Grid("x").add("env_kwargs:b", 2).add("env_kwargs", {}),
    ):
        with pytest.raises(UserError):
            bad.variants()


@pytest.mark.parametrize(
    ("key", "short"),
    [
        ("ac_kwargs:hidden_sizes", "ac-hid"),
        ("steps_per_epoch", "ste"),
        ("pi_lr", "pi"),
        ("x_y", "xy"),
        ("train_v_iters", "tra"),
    ],
)
def test_shorthands_are_spinning_ups(key, short):
    assert default_shorthand(key) == short


def names(grid):
    return [grid.variant_name(variant) for variant in grid.variants()]


def test_names_tell_the_settings_with_several_values_and_never_the_seed():
    grid = Grid("n").add("seed", [0, 1]).add("gamma", 0.9).add("lr", [0.1, "1e-3"])
    assert names(grid) == ["n_lr0-1", "n_lr0-001"] * 2
    widths = Grid("n").add("hidden", [[64, 64], "400,300"])
    assert names(widths) == ["n_hid64-64", "n_hid400-300"]
    assert names(Grid("n").add("env", ["A:Hop_X-v4", "B"])) == [
        "n_enva-hop_x-v4",
        "n_envb",
    ]


def test_a_name_has_a_switch_where_it_is_on():
    grid = Grid("n").add("learn_alpha", [True, "false"]).add("tau", 0.1, "t", True)
    assert names(grid) == ["n_lea_t0-1", "n_t0-1"]
    assert names(Grid("n").add("tau", [0.1, 0.2], "")) == ["n_0-1", "n_0-2"]


def test_two_variants_of_one_name_are_refused_with_a_solution():
    both = Grid("n").add("algo", "ppo").add("env", "CartPole-v1")
    both.add("normalize_obs", [True, False]).add("normalize_returns", [True, False])
    with pytest.raises(UserError, match=r"'n_nor'; give .* 'normalize_obs\[xyz\]'"):
        both.runs()


def test_one_name_means_one_type_in_all_algorithms():
    known = [spec.known_settings(algo) for algo in NAMES]
    for name in {name for settings in known for name in settings}:
        hints = {str(x[name].hint) for x in known if name in x}
        assert len(hints) == 1, name


# Beyond the product


def test_zipped_settings_move_together():
    grid = Grid("n").add("seed", [0, 1]).zip({"lr": [0.1, 0.2], "tau": [0.3, 0.4]})
    assert names(grid)[:2] == ["n_lr0-1_tau0-3", "n_lr0-2_tau0-4"]
    assert len(grid.variants()) == 4
    with pytest.raises(UserError, match=r"lr .*1 .*tau .*2"):
        Grid("n").zip({"lr": [0.1], "tau": [0.3, 0.4]})


def test_combinations_are_left_out_and_added():
    grid = Grid("n").add("env", ["A", "B"]).add("seed", [0, 1]).add("lr", [0.1, 0.2])
    grid.exclude({"env": "B", "lr": "0.2"}).include({"env": "A", "lr": 0.3})
    found = [(v["env"], v["seed"], v["lr"]) for v in grid.variants()]
    assert ("B", 0, 0.2) not in found
    assert found[-2:] == [("A", 0, 0.3), ("A", 1, 0.3)]
    assert len(found) == 8
    more = Grid("n").add("lr", 0.1).include({"lr": 0.1, "tau": 0.2})
    assert names(more) == ["n", "n_tau0-2"]


def test_an_environment_has_values_of_its_own():
    grid = Grid("n").add("env", ["A", "B"]).add("steps", "1e3").add("lr", [0.1, 0.2])
    grid.override("B", {"steps": 5, "lr": 0.3})
    assert [(v["steps"], v["lr"]) for v in grid.variants()] == [
        (1000, 0.1),
        (1000, 0.2),
        (5, 0.3),  # once, not for each of two learning rates
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.linspace(0.5, 1, 3), [0.5, 0.75, 1.0]),
        (np.float64(0.5), [0.5]),
        ([np.float32(0.5), jnp.array(0.25)], [0.5, 0.25]),
    ],
)
def test_values_of_numpy_and_jax_are_written_as_plain_numbers(
    tmp_path, given, expected
):
    grid = Grid("n").add("algo", "ppo").add("env", "Pendulum-v1").add("gamma", given)
    grid.add("seed", range(2)).add("env_kwargs:g", np.array([9.0]))
    grid.include({"keep": np.int64(3)}).override("Pendulum-v1", {"epochs": np.int8(3)})
    variants = grid.runs(str(tmp_path))
    assert [x.run.config.gamma for x in variants[: 2 * len(expected) : 2]] == expected
    variants[-1].write()
    written = yaml.safe_load(variants[-1].file.read_text())
    assert written["env_kwargs"] == {"g": 9.0}
    assert (written["keep"], written["epochs"], written["seed"]) == (3, 3, 1)


def test_python_reports_the_same_mistakes_as_a_file_and_all_at_once(tmp_path):
    grid = Grid("n").add("algo", "sac").add("env", ["Hoper-v4"]).add("gama", 1)
    grid.add("gamma", [0.9, 1.5]).include({"tau": 7}).exclude({"lr": -1})
    text = "{algo: sac, env: Hoper-v4, gama: 1, gamma: [0.9, 1.5], name: n, "
    file = written(tmp_path, text + "include: {tau: 7}, exclude: {lr: -1}}")
    with pytest.raises(UserError) as from_file:
        grid_file.read(file)
    with pytest.raises(UserError) as from_python:
        grid.runs()
    for name in ("Hopper-v4", "'gamma'", "gamma is 1.5", "tau is 7", "lr is -1"):
        assert name in str(from_python.value)
        assert name in str(from_file.value)


# Files and flags


def written(tmp_path, text):
    file = tmp_path / "sweep.yaml"
    file.write_text(textwrap.dedent(text))
    return str(file)


def test_lists_in_a_file_are_axes_and_values_have_the_type_of_the_setting(tmp_path):
    text = """
        name: sac-lr
        algo: sac
        env: [Hopper-v4, Walker2d-v4]
        seed: [0, 1, 2]
        lr[rate]: [1e-3, 3e-4]
        hidden: [[256, 256], [400, 300]]
        steps: 1e6
        zip: {batch_size: [100, 256], update_every: [50, 64]}
        exclude: [{seed: 2, lr: 3e-4}]
        per_env:
          Walker2d-v4: {steps: 2e6, hidden: [64, 64]}
    """
    runs = grid_file.read(written(tmp_path, text)).variants
    # Hopper: 3 seeds x 2 rates x 2 widths x 2 zipped - 1 x 1 x 2 x 2; Walker half.
    assert len(runs) == 20 + 10
    first, last = runs[0].run, runs[-1].run
    assert (first.config.lr, first.config.hidden, first.steps) == (
        1e-3,
        (256, 256),
        10**6,
    )
    assert (last.config.hidden, last.steps, last.data.batch_size) == (
        (64, 64),
        2 * 10**6,
        256,
    )
    name = "sac-lr_envhopper-v4_rate0-001_hid256-256_bat100_upd50"
    assert str(runs[0].path) == f"runs/sac-lr/{name}/{name}_s0"


def test_widths_in_a_flat_list_are_one_value(tmp_path):
    text = "{algo: sac, env: Hopper-v4, hidden: [32, 32]}"
    (only,) = grid_file.read(written(tmp_path, text)).grid.runs()
    assert only.run.config.hidden == (32, 32)
    assert only.run.exp_name == "sweep"


BAD = """\
nmae: x
algo: sacc
env: [Hoper-v4, Walker2d-v4]
seed: [0, 1, 1]
gama: 0.9
lr: [1e-3,
  fast]
gamma:
  - 0.9
  - 1.5
zip: {tau: [0.1, 0.2], batch_size: [1]}
exp_name: me
per_env:
  Walker2d-v3: {steps: 5}
keep:
keep: 3
include: 5
alpha:b: 2
tua:
  - 0.1
  - 0.2
exclud:
  - {seed: 1}
name: a/b
"""
MISTAKES = {
    1: "'nmae'.*'name'",
    2: "algorithm 'sacc'.*'sac'",
    3: "Hopper-v4",
    4: "seed .*1 twice",
    5: "'gama'.*'gamma'",
    7: "lr .*'fast'.*number",
    10: r"gamma .*1\.5",
    11: "tau .*2 .*batch_size .*1",
    14: "'Walker2d-v3'.*'Walker2d-v4'",
    15: "keep .*None",
    16: "keep .*line 15",
    17: "include .*settings",
    18: "env_kwargs",
    19: "'tua'.*'tau'",
    22: "'exclud'.*'exclude'",
    24: "name .*'a/b'.*letters",
}


def test_every_mistake_in_a_file_is_reported_at_once_with_its_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["grid", written(tmp_path, BAD)]) == 2
    printed = capsys.readouterr().err
    pairs = [
        line.strip().removeprefix("line ").split(": ", 1)
        for line in printed.splitlines()[1:]
    ]
    lines = dict(pairs)
    assert len(lines) == len(pairs)
    for number, part in MISTAKES.items():
        assert re.search(part, lines.pop(str(number)))
    assert not lines
    assert printed.startswith("jaxrl: ")
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


BOMB = "a: &a [1, 1]\n" + "".join(
    f"{two}: &{two} [*{one}, *{one}]\n"
    for one, two in itertools.pairwise("abcdefghijklmnopqrstuvwxyz")
)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("algo: [", "not YAML: line 1: "),
        ("algo: sac\nzip:\n\tlr: 1", "line 3: .*tab"),
        ("[" * 5000, "nested too deeply"),
        ("a: \0", "not YAML: .*#x0000"),
        ("{algo: sac, env: }", "env .*empty"),
        ("{algo: sac, env: [5]}", "env .*5.* name"),
        ("- 1", "must hold settings"),
        ("{algo: sac, env: &a [*a]}", "line 1"),
        (BOMB, "more than 100000"),
        ("algo: sac", "no env"),
        ("env: Hopper-v4", "no algo"),
        ("{algo: sac, env: Hopper-v4, name: ../x}", r"name .*'\.\./x'.*letters"),
        ("{algo: sac, env: Hopper-v4, name: ''}", "line 1: .*name .*''"),
        ("{algo: sac, env: Hopper-v4, name: }", "line 1: name .*one value"),
        ("{algo: sac, env: Hopper-v4, lr: []}", "lr has no value"),
        ("{algo: sac, env: Hopper-v4, lr: !!python/name:os.system }", "line 1"),
        ("{algo: sac, env: Hopper-v4, exclude: {lr: 7}}", "excludes nothing"),
        (
            "{algo: sac, env: Ant, env_kwargs:a: 1, env_kwargs: {}, exclude: {lr: 7}}",
            "sweep.yaml: env_kwargs .*whole",
        ),
        ("{algo: sac, env: Hopper-v4, exclude: {env: Hopper-v4}}", "no variant"),
        ("{algo: [sac, td3], env: Hopper-v4, alpha: 1}", "td3 .*'alpha'"),
        (
            "algo: sac\nenv: [Hopper-v4,\n  CartPole-v1]",
            "line 3: .*CartPole-v1 .*sac",
        ),
        ("{algo: ppo, env: CartPole-v1, env_kwargs:y: 1}", "{'y': 1}"),
        ("algo: sac\n env: Hopper-v4", "line 2: .*not indented"),
        ("algo: sac\nenv: Ant-v4\n gamma: 1", "line 3: .*not indented"),
        ("algo: sac\n---\nenv: Ant-v4", "line 2: .*second document"),
        ("{algo: sac, env: Hopper-v4, [1, 2]: 4}", "line 1: .*name"),
        ("{algo: sac, env: Hopper-v4, include: {5: 4}}", r"\b5\b.* setting"),
        ("algo: sac\nenv: Hopper-v4\nseed: !!timestamp z", "line 3"),
        ("{algo: sac, env: Hopper-v4, seed: !!bool q}", "line 1"),
        ("{algo: sac, env: Hopper-v4, env_kwargs: !!omap [a: 1]}", "a mapping"),
        ("{algo: sac, env: Ant-v4, name: a, exp_name: b}", "already .*line 1"),
        (
            "{algo: sac, env: Ant-v4, per_env: {Ant-v4: {algo: td3}}}",
            "line 1: algo .*environment",
        ),
        ("{algo: sac, env: Hopper-v4, overwrite: true}", "--overwrite"),
        ("{algo: sac, env: Hopper-v4, 'lr[%s]': [1, 2]}" % ("x" * 300), "too long"),
    ],
)
def test_a_file_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys, text, part):
    monkeypatch.chdir(tmp_path)
    assert main(["grid", written(tmp_path, text)]) == 2
    printed = capsys.readouterr().err
    assert re.search(part, printed)
    assert printed.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


def test_unequal_lengths_in_zip_are_reported_with_other_mistakes_in_it(tmp_path):
    text = """\
        algo: sac
        env: Hopper-v4
        zip:
          - {tau: [0.1, 0.2],
             gamma: [7]}
    """
    with pytest.raises(UserError) as refusal:
        grid_file.read(written(tmp_path, text))
    assert re.search("line 4: .*tau .*2 .*gamma .*1", str(refusal.value))
    assert re.search("line 5: gamma .*7", str(refusal.value))


def test_names_keep_large_and_small_numbers_apart_and_long_ones_short():
    few = Grid("n").add("lr", [1e30, 1e-30, 0.0005, 1e-05, 123456.75])
    expected = ["1e30", "1e-30", "0-0005", "1e-05", "123456-75"]
    assert names(few) == [f"n_lr{number}" for number in expected]
    even = Grid("n").add("gamma", np.linspace(0.9, 0.99, 4))
    assert names(even) == ["n_gam0-9", "n_gam0-93", "n_gam0-96", "n_gam0-99"]
    close = Grid("n").add("tau", [1 / 3, 1 / 3 + 1e-9, 2 / 3, 0.3, 0.1 + 0.2])
    assert names(close)[2:4] == ["n_tau0-666667", "n_tau0-3"]
    assert len({*names(close)}) == 5


def test_all_that_excludes_nothing_is_reported(tmp_path):
    text = """\
        algo: sac
        env: Hopper-v4
        exclude:
          - {lr: 7}
          - {seed: 1}
          - {tau: 0.1}
          - {seed: 1, tau: 0.1}
        seed: [0, 1]
        per_env:
          Hopper-v4: {tau: 0.2}
        include: {tau: 0.1, seed: 3}
    """
    with pytest.raises(UserError) as refusal:
        grid_file.read(written(tmp_path, text))
    lines = re.findall(r"line (\d+): .*exclude", str(refusal.value))
    assert lines == ["4", "6", "7"]


def test_a_grid_of_too_many_variants_is_refused_before_they_are_made(tmp_path):
    many = list(range(1, 1001))
    lines = ["algo: sac", "env: Hopper-v4", *(f"{x}: {many}" for x in ("seed", "keep"))]
    lines += [f"max_ep_len: {many}", "exclude: [{seed: 1}, {seed: 2}]"]
    with pytest.raises(UserError, match=r"1,000,000,000 .*10,000"):
        grid_file.read(written(tmp_path, "\n".join(lines)))
    grid = Grid("n").add("seed", many).add("steps", list(range(10)))
    assert len(grid.variants()) == 10_000
    grid.include({"lr": 0.1, "steps": [1, 2]})
    with pytest.raises(UserError, match="are 12,000 combinations"):
        grid.variants()


def test_naming_thousands_of_variants_takes_seconds(tmp_path):
    grid = Grid("n").add("algo", "ppo").add("env", "CartPole-v1")
    grid.add("keep", list(range(1, 5))).add("seed", list(range(1000)))
    start = time.process_time()
    assert len(grid.runs(str(tmp_path))) == 4000
    assert time.process_time() - start < 20  # a quadratic search takes minutes


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("", "no grid"),
        ("pppo --env CartPole-v1", "'ppo'"),
        ("absent.yaml", "cannot read absent.yaml"),
        ("ppo --env CartPole-v1 --gama 1 2", "'gamma'"),
        ("ppo --env CartPole-v1 --seed 0 --seed 1", "--seed "),
        ("ppo --env CartPole-v1 --jobs 0", "--jobs is '0'"),
        ("ppo --env CartPole-v1 --time_limit soon", "90s"),
        ("ppo --env CartPole-v1 --name a/b", "'a/b'"),
        ("ppo CartPole-v1", "'CartPole-v1'"),
        ("ppo", "--env "),
        ("ppo --envs CartPole-v1", "'--envs' .*'--env'"),
        ("ppo --env CartPole-v1 --job 2", "'--job' .*'--jobs'"),
    ],
)
def test_a_line_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys, line, part):
    monkeypatch.chdir(tmp_path)
    assert main(["grid", *line.split()]) == 2
    printed = capsys.readouterr().err
    assert re.search(part, printed)
    assert printed.startswith("jaxrl: ")
    assert printed.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_dry_run_shows_the_variants_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = "grid ppo --env CartPole-v1 Acrobot-v1 --seed 0 1 2 --hidden 32,32 64,64"
    assert main([*line.split(), "--steps", "204800", "--jobs", "4", "--dry-run"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "env", "seed", "hidden", "steps", "state"]
    name = "ppo_envcartpole-v1_hid64-64_s0"
    assert rows[1].split() == [name, "CartPole-v1", "0", "64,64", "204800", "new"]
    assert len(rows[:-2]) == 12
    assert re.search(r"12 .* \d:\d\d:\d\d", rows[-1])
    assert not list(tmp_path.iterdir())


def test_a_dry_run_has_one_column_of_steps_and_shows_what_failed_to_start(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    line = "grid ppo --env CartPole-v1 --steps_per_epoch 100 --dry-run --steps"
    failed = grid_file.from_flags(
        ["ppo"], {"env": ["CartPole-v1"], "steps": ["200", "250"]}
    )
    path = failed.variants[1].path
    path.parent.mkdir(parents=True)
    status.write(status.outcome_file(path), status.Status(state="failed"))
    assert main([*line.split(), "200", "250"]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert rows[:3] == [
        ["run", "steps", "state"],
        ["ppo_ste200_s0", "200", "new"],
        ["ppo_ste250_s0", "300", "failed"],
    ]
    assert main([*line.split(), "200"]) == 0
    assert "\n1 variant, about" in capsys.readouterr().out


def test_a_variants_file_is_what_train_reads(tmp_path):
    grid = Grid("n").add("algo", "td3").add("env", "Pendulum-v1")
    grid.add("hidden", (8, 8)).add("env_kwargs:g", 9.0).add("seed", [3])
    (variant,) = grid.runs(str(tmp_path))
    variant.write()
    written = yaml.safe_load(variant.file.read_text())
    assert written["hidden"] == [8, 8]
    assert written["env_kwargs"] == {"g": 9.0}
    assert written["exp_name"] == "n"
