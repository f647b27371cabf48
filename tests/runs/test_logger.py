"""jaxrl.Logger: a user's own loop as a run."""

import argparse
import collections
import contextlib
import csv
import dataclasses
import enum
import functools
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import yaml
from launching import HERE, ended, start
from small_runs import events, train

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.runs import failures, reading
from jaxrl.runs.user_config import plain_config


def logger(path, config=None, **options):
    return jaxrl.Logger(path, config, screen=False, **options)


def rows(path):
    return list(csv.DictReader((path / "progress.csv").read_text().splitlines()))


# Rows


def test_a_row_has_the_statistics_of_what_was_stored(tmp_path):
    path = tmp_path / "mine" / "mine_s3"
    with logger(path, {"lr": 3e-4}, spread=["Values"]) as log:
        log.store(EpRet=[1.0, 2.0], LossPi=jnp.float32(4), Values=np.eye(2))
        log.store(EpRet=6, LossPi=2)
        stats = log.stats("EpRet")
        assert (stats.n, stats.mean, stats.min, stats.max) == (3, 3.0, 1.0, 6.0)
        assert "n=3" in str(stats)
        row = log.dump(step=np.int64(1000))
        with pytest.raises(UserError, match="EpRet"):
            log.stats("EpRet")  # of the new epoch
    assert row["AverageEpRet"] == 3
    np.testing.assert_allclose(row["StdEpRet"], np.std([1, 2, 6]))
    assert (row["LossPi"], row["MaxValues"]) == (3, 1)
    assert (row["Epoch"], row["TotalEnvInteracts"]) == (1, 1000)
    assert [float(x) for x in rows(path)[0].values()] == pytest.approx(
        list(row.values())
    )
    tags = [value.tag for event in events(path) for value in event.summary.value]
    assert "LossPi" in tags
    assert log.history == [row]


def test_names_nest_and_appear_later(tmp_path):
    with logger(tmp_path / "x") as log:
        log.store(a=1)
        log.dump(1)
        log.store({"eval/x": 2, "eval": {"y": {"z": 3}}})
        log.dump(2)
    assert [list(row.values())[3:] for row in rows(tmp_path / "x")] == [
        ["1", "", ""],
        ["", "2", "3"],
    ]
    assert list(log.history[0])[3:] == ["a", "eval/x", "eval/y/z"]
    tags = {v.tag for event in events(tmp_path / "x") for v in event.summary.value}
    assert {"eval/x", "eval/y/z"} <= tags


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1e300, -1e300, 1e200]])
def test_a_value_that_is_not_finite_is_shown(tmp_path, capsys, value):
    with logger(tmp_path / "x") as log:
        log.store(EpRet=1, Loss=1)
        log.store(Loss=value)
        row = log.dump(1)
    assert not np.isfinite(row["Loss"]) or isinstance(value, list)
    assert rows(tmp_path / "x")[0]["Loss"] == f"{row['Loss']:.9g}"
    assert main(["ls", str(tmp_path)]) == 0
    assert "finished" in capsys.readouterr().out


def test_the_screen_shows_each_row(tmp_path, capsys):
    with jaxrl.Logger(tmp_path / "x", tensorboard=False) as log:
        log.store(Loss=0.25)
        log.dump(500)
    printed = capsys.readouterr().out
    assert "500 steps" in printed
    assert "Loss 0.25" in printed
    assert not (tmp_path / "x" / "tb").exists()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda log: log.dump(1), "store"),
        (lambda log: log.store({3: 1}), "name"),
        (lambda log: log.store({"a\nb": 1}), "name"),
        (lambda log: log.store([1, 2]), "by name"),
        (lambda log: log.store(Loss="low"), "Loss is 'low'"),
        (lambda log: log.store(Loss=None), "number"),
        (lambda log: log.store(Loss=[[1], [1, 2]]), "number"),
        (lambda log: log.store(Epoch=1), "Epoch"),
        (lambda log: log.store(AverageEpRet=1), "AverageEpRet"),
        (lambda log: (log.store(a=1), log.dump("1")), "whole number"),
        (lambda log: (log.store(a=1), log.dump(-1)), "0 or more"),
        (lambda log: (log.store(a=1), log.dump(5), log.store(a=1), log.dump(5)), "5"),
        (lambda log: log.stats(3), "name"),
        (lambda log: log.save_model({"w": 1}, "last"), "save_model"),
        (lambda log: log.save_model("../x", {"w": 1}), "name"),
        (lambda log: log.save_model("x", {"w": object()}), "'w'"),
        (lambda log: log.save_model("x", {1.5: np.ones(1)}), "1.5"),
        (lambda log: (log.close(), log.store(a=1)), "closed"),
        (lambda log: (log.close(), log.dump(1)), "closed"),
    ],
)
def test_wrong_use_is_refused_in_a_sentence(tmp_path, wrong, word):
    log = logger(tmp_path / "x")
    with pytest.raises(UserError, match=word) as caught:
        wrong(log)
    assert "\n" not in str(caught.value)
    log.close()
    assert not (tmp_path / "models" / "x").exists()


# Settings


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: object


@dataclasses.dataclass
class Settings:
    lr: float = 3e-4
    act: object = jax.nn.relu
    out: Path = Path("/tmp/x")


def test_a_config_is_written_as_plain_data(tmp_path):
    config = {
        "lr": np.float32(0.5),
        "n": jnp.int32(3),
        "net": (64, 64),
        "array": np.arange(3),
        "large": np.zeros((30, 30)),
        "settings": Settings(),
        "pair": Pair(1, {"c": Colour.RED}),
        "kind": Settings,
        "part": functools.partial(max, 3),
        "odd": object(),
        "none": None,
        "set": {3, 1},
        7: "seven",
        "flag": np.bool_(True),
        "key": jax.random.PRNGKey(0),
    }
    with logger(tmp_path / "x", config) as log:
        log.store(EpRet=1)
        log.dump(1)
    read = yaml.safe_load((tmp_path / "x" / "config.yaml").read_text())["settings"]
    assert read["lr"] == 0.5
    assert read["n"] == 3
    assert read["net"] == [64, 64]
    assert read["array"] == [0, 1, 2]
    assert "(30, 30)" in read["large"]
    assert read["settings"] == {"lr": 3e-4, "act": "relu", "out": "/tmp/x"}
    assert read["pair"] == {"a": 1, "b": {"c": "RED"}}
    assert (read["kind"], read["odd"], read["part"]) == (
        "Settings",
        "object",
        "partial(max)",
    )
    assert read["none"] is None
    assert read["set"] == [1, 3]
    assert read["7"] == "seven"
    assert read["flag"] is True
    assert read["key"] == [0, 0]
    assert reading.record(tmp_path / "x").setting("lr") == 0.5


def test_a_dataclass_or_a_namespace_is_a_config():
    assert plain_config(Settings())["act"] == "relu"
    assert plain_config(argparse.Namespace(a=1)) == {"a": 1}
    assert plain_config(None) == {}
    itself = {}
    itself["itself"] = itself
    for wrong in (3, "text", itself):
        with pytest.raises(UserError, match="config"):
            plain_config(wrong)


def test_the_experiment_and_the_seed_come_from_the_directory_or_the_config(tmp_path):
    for name, config, exp_name, seed in (
        ("mine_s3", {}, "mine", 3),
        ("mine", {}, "mine", 0),
        ("mine_s3", {"seed": 5, "env": "Ant-v4", "algo": "es"}, "mine", 5),
    ):
        with logger(tmp_path / name, config, overwrite=True):
            pass
        read = reading.record(tmp_path / name).config
        assert (read["exp_name"], read["seed"]) == (exp_name, seed)
        assert read["env"] == config.get("env", "")


# Models


def test_a_model_comes_back_as_it_was_saved(tmp_path):
    params = {
        "w": jnp.ones((2, 3)),
        "list": [np.arange(3), (1.5, "text", None, True)],
        "pair": Pair(jnp.zeros(2, jnp.bfloat16), np.float64(2)),
        "settings": {"empty": {}, 3: jnp.int8(4)},
        "ordered": collections.OrderedDict(b=np.zeros(0), a=np.array("x")),
    }
    with logger(tmp_path / "x") as log:
        log.save_model("last", params)
        log.save_model("best-so-far", [params["w"]])
    loaded = jaxrl.load_model(tmp_path / "x")
    assert list(loaded) == list(params)
    assert isinstance(loaded["w"], np.ndarray)
    np.testing.assert_array_equal(loaded["w"], params["w"])
    assert loaded["list"][1] == (1.5, "text", None, True)
    assert loaded["pair"]["a"].dtype == jnp.bfloat16
    assert loaded["settings"] == {"empty": {}, 3: 4}
    assert list(loaded["ordered"]) == ["b", "a"]
    assert jaxrl.load_model(tmp_path / "x", "best-so-far")[0].shape == (2, 3)
    with pytest.raises(UserError, match="best-so-far, last"):
        jaxrl.load_model(tmp_path / "x", "best")


def test_a_model_fills_a_tree_of_its_shape(tmp_path):
    params = {"w": jnp.arange(3.0), "key": jax.random.key(7)}
    state = (params, optax.adam(1e-3).init(params["w"]))
    with logger(tmp_path / "x") as log:
        log.save_model("last", state)
    zeros = ({"w": jnp.zeros(3), "key": jax.random.key(0)}, optax.adam(1).init(1.0))
    with pytest.raises(UserError, match="shape"):
        jaxrl.load_model(tmp_path / "x", like=zeros)
    zeros = (zeros[0], optax.adam(1e-3).init(jnp.zeros(3)))
    loaded = jaxrl.load_model(tmp_path / "x", like=zeros)
    assert jax.tree.structure(loaded) == jax.tree.structure(state)
    same = jax.tree.map(lambda a, b: bool(jnp.all(a == b)), loaded, state)
    assert all(jax.tree.leaves(same))
    with pytest.raises(UserError, match="'v'"):
        jaxrl.load_model(tmp_path / "x", like={"v": np.zeros(3)})


def test_a_state_of_an_algorithm_is_a_model(tmp_path):
    result = train(tmp_path, "ppo", "CartPole-v1")
    with logger(tmp_path / "x") as log:
        log.save_model("last", result.state)
    loaded = jaxrl.load_model(tmp_path / "x", like=result.state)
    key = jax.random.key_data
    np.testing.assert_array_equal(key(loaded.key), key(result.state.key))
    assert type(loaded) is type(result.state)
    with pytest.raises(UserError, match=r"jaxrl\.load "):
        jaxrl.load_model(result.directory)


def test_a_strangers_model_is_refused(tmp_path):
    with logger(tmp_path / "x") as log:
        log.save_model("last", {"w": np.ones(3)})
    file = tmp_path / "x" / "models" / "last" / "tree.npz"
    np.savez(file, about=np.array(json.dumps({"format": 1, "tree": {}, "arrays": []})))
    with pytest.raises(UserError, match="damaged"):
        jaxrl.load_model(tmp_path / "x")
    np.save(file.with_suffix(".npy"), np.array([object()]), allow_pickle=True)
    file.with_suffix(".npy").rename(file)
    with pytest.raises(UserError, match="damaged"):
        jaxrl.load_model(tmp_path / "x")
    file.unlink()
    file.symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="link"):
        jaxrl.load_model(tmp_path / "x")


def test_a_damaged_model_is_refused_whatever_its_bytes_are(tmp_path):
    with logger(tmp_path / "x") as log:
        log.save_model("last", {"w": np.ones(30), "b": [1, (2, np.zeros((3, 3)))]})
    file = tmp_path / "x" / "models" / "last" / "tree.npz"
    data, rng = file.read_bytes(), random.Random(0)
    for _ in range(1000):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(changed)
        with contextlib.suppress(UserError):  # a number may be another one
            jaxrl.load_model(tmp_path / "x")
    for tree in ([], {"list": [5]}, {"array": 9}, {"dict": [[[], {"value": 1}]]}):
        about = {"format": 1, "tree": tree, "arrays": []}
        np.savez(file, about=np.array(json.dumps(about)))
        with pytest.raises(UserError, match="damaged"):
            jaxrl.load_model(tmp_path / "x")


# Its directory


def test_the_commands_read_its_directory(tmp_path, capsys):
    for seed in range(2):
        path = tmp_path / "mine" / f"mine_s{seed}"
        with logger(path, {"env": "Mine-v0", "epochs": 100}) as log:
            for step in range(1, 4):
                log.store(EpRet=step * (seed + 1), Loss=1 / step)
                log.dump(step * 10)
    assert main(["ls", "--json", str(tmp_path)]) == 0
    one, _ = json.loads(capsys.readouterr().out)
    assert (one["state"], one["steps"], one["last"]) == ("finished", 30, 3.0)
    for words in (["plot"], ["plot", "-y", "Loss", "--count"]):
        picture = tmp_path / "a.png"
        assert main([words[0], str(tmp_path), *words[1:], "-o", str(picture)]) == 0
        assert picture.exists()
    page = tmp_path / "a.html"
    assert main(["report", str(tmp_path), "-o", str(page)]) == 0
    assert "Mine-v0" in page.read_text()
    for command in ("eval", "video", "export", "resume", "rerun"):
        assert main([command, str(path)]) == 2
        assert "jaxrl.Logger" in capsys.readouterr().err


def test_runs_without_returns_are_drawn_by_their_columns(tmp_path, capsys):
    with logger(tmp_path / "x") as log:
        log.store(Loss=1)
        log.dump(1)
    assert main(["ls", str(tmp_path)]) == 0
    picture = str(tmp_path / "a.png")
    assert main(["plot", str(tmp_path), "-o", picture]) == 2
    assert "Loss" in capsys.readouterr().err
    assert main(["plot", str(tmp_path), "-y", "Loss", "-o", picture]) == 0
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "a.html")]) == 0


def test_a_directory_that_holds_files_is_refused(tmp_path):
    path = tmp_path / "x"
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="another directory"):
            logger(path, overwrite=overwrite)
    assert [file.name for file in path.iterdir()] == ["notes.txt"]
    for wrong in (3, "", None):
        with pytest.raises(UserError, match="directory"):
            logger(wrong)
    with pytest.raises(UserError, match="another directory"):
        logger(path / "notes.txt" / "x")


def test_an_earlier_run_is_removed_only_if_asked(tmp_path):
    path = tmp_path / "x"
    with logger(path) as log:
        log.store(a=1)
        log.dump(1)
        log.save_model("mine", np.ones(2))
        (path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="overwrite=True"):
        logger(path)
    assert rows(path)
    with logger(path, overwrite=True) as log:
        with pytest.raises(UserError, match="another process"):
            logger(path, overwrite=True)
        assert reading.record(path).state == "running"
    assert not (path / "models").exists()
    assert not (path / "progress.csv").read_text()
    assert (tmp_path / "x.kept-1" / "notes.txt").exists()
    assert not (tmp_path / "x.kept-1" / "models").exists()


# Its end


def test_an_error_inside_of_with_is_the_status(tmp_path):
    def fail(error):
        with logger(tmp_path / "x", overwrite=True) as log:
            log.store(a=1)
            log.dump(7)
            raise error

    for error, state, reason in (
        (ZeroDivisionError("by zero"), "failed", "by zero"),
        (UserError("a wrong word"), "failed", "a wrong word"),
        (KeyboardInterrupt(), "interrupted", "SIGINT"),
        (SystemExit(3), "failed", "3"),
        (SystemExit(0), "finished", ""),
    ):
        with pytest.raises(type(error)):
            fail(error)
        record = reading.record(tmp_path / "x")
        assert record.state == state
        assert record.status.step == 7
        assert reason in record.status.reason


def test_a_killed_loop_is_interrupted(tmp_path):
    code = f"""
        import jaxrl, os, signal
        log = jaxrl.Logger({str(tmp_path / "x")!r})
        log.store(EpRet=1)
        log.dump(1)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    words = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(words, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    record = reading.record(tmp_path / "x")
    assert record.state == "interrupted"
    assert failures.failure_reason(record.path) == failures.KILLED
    assert len(record.progress["AverageEpRet"]) == 1


# Several ranks


def test_ranks_pool_what_they_store_and_rank_0_writes(tmp_path):
    path = tmp_path / "x"
    words = [sys.executable, str(HERE / "ranks.py"), "log", str(path)]
    code, out, err = ended(start(words, 3))
    assert code == 0, out + err
    assert out.count("epoch 1 ") == 1
    assert [row["rank/2"] for row in rows(path)] == ["0", "1"]
    assert reading.record(path).state == "finished"
    assert reading.record(path).num_procs == 3
    assert jaxrl.load_model(path)["rank"] == 0
    assert len(list((path / "tb").iterdir())) == 1


def test_an_error_of_one_rank_ends_all_and_is_the_status(tmp_path):
    path = tmp_path / "x"
    words = [sys.executable, str(HERE / "ranks.py"), "log", str(path), "error"]
    code, _, err = ended(start(words, 2))
    assert code
    assert "no more" in err
    record = reading.record(path)
    assert record.state == "failed"
    assert "no more" in record.status.reason


# Weights & Biases


def test_weights_and_biases_shows_the_loop(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with logger(tmp_path / "x", {"lr": 0.5}, wandb=True, wandb_models=True) as log:
        log.store({"eval/x": 1})
        log.dump(1)
        log.save_model("mine", np.ones(3))
    (file,) = (tmp_path / "x" / "wandb").glob("offline-run-*/*.wandb")
    assert b"eval/x" in file.read_bytes()
    assert b"tree.npz" in file.read_bytes()
    with pytest.raises(UserError, match="wandb=True"):
        logger(tmp_path / "y", wandb_models=True)


def test_weights_and_biases_without_a_login_is_refused(tmp_path):
    code = f"import jaxrl; jaxrl.Logger({str(tmp_path / 'x')!r}, wandb=True)"
    environment = {k: x for k, x in os.environ.items() if not k.startswith("WANDB")}
    environment |= {"HOME": str(tmp_path), "NETRC": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert "wandb=True needs" in done.stderr
    assert not (tmp_path / "x").exists()
