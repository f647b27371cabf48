"""Input made by mistake or by a stranger: refused in a line, and no code of it runs."""

import hashlib
import json
import random
import re
import shutil
import string
from pathlib import Path

import numpy as np
import pytest
import yaml
from small_runs import train

from jaxrl.algos import NAMES
from jaxrl.cli.main import main
from jaxrl.errors import suggestion
from jaxrl.runs import arrays, checkpoint, spec
from jaxrl.settings import values
from jaxrl.training import loop
from jaxrl.training.learner import Learner

ODD = [
    "",
    " ",
    "\t",
    "\n",
    "é",
    "日本",
    "\u202e",
    "🙂",
    "x" * 300,
    "../..",
    "/etc",
    "~",
]
ODD += [
    "-",
    "--",
    "=",
    "%s",
    "{}",
    "[",
    "{a: b",
    "!!python/name:os.system",
    "\\",
    "`ls`",
]
ODD += ["$(ls)", "'; ls", "None", "null", "nan", "-inf", "1e400", "-1", "0.5.5", "0x10"]
ODD += ["9" * 400, "1_0", "١", "true false", "[1, [2]]", "* *", "&a", "1e"]


@pytest.fixture
def nothing_trains(monkeypatch):
    """What is not refused before it would train fails at once."""

    def trains(training):
        raise AssertionError(f"would have trained {training.setup.run}")

    monkeypatch.setattr(loop, "run_loop", trains)


def contents(directory):
    """Every file under it, with its bytes."""
    return {p: p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def refused(words, directory, capsys):
    """The sentence with which a command refuses, and changes nothing."""
    before = contents(directory)
    code = main([str(word) for word in words])
    shown = capsys.readouterr()
    assert code == 2, (words, shown)
    assert shown.err.startswith(("jaxrl: ", "jaxrl has no command")), (words, shown.err)
    assert "Traceback" not in shown.err
    assert len(shown.err.strip().splitlines()) <= 2 or "\n" in str(words), shown.err
    assert contents(directory) == before, words
    return shown.err


def typo(word, rng):
    """One letter too many, too few, another, or two in the wrong order."""
    i, letter = rng.randrange(len(word)), rng.choice(string.ascii_lowercase)
    wrong = rng.choice(
        [
            word[:i] + letter + word[i:],
            word[:i] + word[i + 1 :],
            word[:i] + letter + word[i + 1 :],
            word[:i] + word[i + 1 : i + 2] + word[i : i + 1] + word[i + 2 :],
        ]
    )
    return wrong if wrong and wrong != word else typo(word, rng)


def test_most_typos_of_one_letter_get_the_right_suggestion(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rng, right, total = random.Random(0), 0, 0
    while total < 300:
        algo = rng.choice(NAMES)
        known = spec.known_settings(algo)
        name = rng.choice(list(known))
        wrong = typo(name, rng)
        if wrong in (*known, "env", "config", "preset", "help"):
            continue
        words = ["train", algo, "--env", "Pendulum-v1", f"--{wrong}", "1"]
        right += f"mean {name!r}" in refused(words, tmp_path, capsys)
        total += 1
    assert right / total >= 0.95, right / total


NAMED = re.compile("'(.*?)'").findall


def test_a_suggestion_is_a_name_that_has_the_word_in_it_and_nothing_far_off():
    ppo, vpg = spec.known_settings("ppo"), spec.known_settings("vpg")
    assert NAMED(suggestion("lr", ppo)) == ["pi_lr", "vf_lr"]
    assert NAMED(suggestion("lr_decya", ppo)) == ["lr_decay"]
    assert NAMED(suggestion("clip", ppo)) == ["clip_ratio"]
    assert suggestion("clip_ratio", vpg) == ""
    assert suggestion("Foo-v1", ["Acrobot-v1"]) == ""
    assert NAMED(suggestion("--jbos", ["--jobs", "--out"])) == ["--jobs"]
    assert suggestion("", ppo) == suggestion("--", ppo) == ""


ANY_TEXT = ("out", "wandb_tags", "wandb_notes")  # settings for which no text is wrong


def bad_value(hint, rng):
    """Text that cannot be a value of such a setting."""
    kind = values.kind(hint)
    if kind == "TEXT":
        return rng.choice(["../x", "a/b", ".", "é", "x" * 300, "-x", "a b"])
    odd = [word for word in ODD if not word.startswith("--")]
    if kind == "YAML":
        return rng.choice(["3", "[1]", "x", "{a", "1e5"])
    if kind == "true|false":
        return rng.choice(["2", "maybe", "ja", "nan", "é"])
    fitting = {"N,N,...": {""}, "X": {"1_0", "١", "-inf", "9" * 400, "0x10"}}.get(
        kind, set()
    )
    numbers = {"-1", "nan", "1e400", "1_0", "١", "9" * 400, "0x10"}
    return rng.choice(
        [word for word in odd if word not in fitting | numbers and word.strip()]
    )


def test_malformed_commands_are_refused_and_change_nothing(
    tmp_path, monkeypatch, capsys, nothing_trains
):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    for _ in range(300):
        algo = rng.choice(NAMES)
        known = spec.known_settings(algo)
        names = [name for name in known if name not in ANY_TEXT]
        name = rng.choice(names)
        value = bad_value(known[name].hint, rng)
        words = ["train", algo, "--env", "Pendulum-v1", f"--{name}={value}"]
        refused(words, tmp_path, capsys)
    numbers = [("--steps", "1e99"), ("--seed", "1" + "0" * 50), ("--seed", "9" * 5000)]
    numbers += [("--hidden", "99999999999"), ("--devices", "100000")]
    for words in numbers:
        refused(["train", "ppo", "--env", "Pendulum-v1", *words], tmp_path, capsys)
    for word in ODD:
        refused([word or " "], tmp_path, capsys)
        refused(["train", word or " "], tmp_path, capsys)
        refused(["train", "sac", "--env", f"x{word}"], tmp_path, capsys)
        refused(["train", "sac", word or "y", "--env", "Pendulum-v1"], tmp_path, capsys)
        for command in ("resume", "rerun", "eval", "plot", "export", "video"):
            refused([command, f"no{word}"], tmp_path, capsys)
            refused([command, "x", f"--strange{word}", "1"], tmp_path, capsys)


YAMLS = [
    b"",
    b"\x00\x01\xff",
    b"\xff\xfe" + "gamma: 1".encode("utf-16-le"),
    b"- 1\n- 2",
    b"42",
    b"gamma: [1, 2",
    b"gamma: {x: 1}\nenv: Pendulum-v1\nalgo: sac",
    b"\tgamma: 1",
    b"[" * 1500,
    b"a: " * 2000,
    b"{a: " * 3000,
    b"a: &a [x, *a]\nalgo: sac\nenv: Pendulum-v1",
    b"algo: sac\nenv: Pendulum-v1\nseed: 2001-99-99",
    b"algo: sac\nenv: Pendulum-v1\nseed: " + b"9" * 5000 + b".5",
    b"algo: [sac]\nenv: Pendulum-v1",
    b"algo: sac\nenv: {a: b}",
    b"? [a, b]\n: 1",
    b"!!python/object/apply:os.system ['touch canary']",
    b"algo: !!python/object/apply:os.system ['touch canary']",
    b"algo: sac\nenv: evil:Pendulum-v1",
]


@pytest.mark.parametrize("text", YAMLS, ids=range(len(YAMLS)))
def test_malformed_yaml_is_refused_and_runs_nothing(
    text, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("open('canary', 'w')")
    Path("x.yaml").write_bytes(text)
    refused(["train", "--config", "x.yaml"], tmp_path, capsys)
    Path("run").mkdir()
    Path("run/config.yaml").write_bytes(text)
    for command in ("resume", "rerun", "eval", "plot", "export", "video"):
        refused([command, "run"], tmp_path, capsys)
    assert not Path("canary").exists()


# A run directory made by a stranger


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return train(tmp_path_factory.mktemp("run"), "sac", "Pendulum-v1").directory


def resummed(path):
    """Makes the manifest of every checkpoint agree with its files again."""
    for manifest in path.glob(f"checkpoints/*/{checkpoint.MANIFEST}"):
        sums = json.loads(manifest.read_text())
        for name in list(sums):
            file = manifest.parent / name
            data = file.read_bytes() if file.exists() else b""
            sums[name] = hashlib.sha256(data).hexdigest()
        manifest.write_text(json.dumps(sums))


def changed(value, rng):
    """A tree with one of its parts replaced or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.2:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        i = rng.randrange(len(value))
        return [*value[:i], changed(value[i], rng), *value[i + 1 :]]
    return rng.choice([None, -1, 10**30, "é", [], {}, [[]], "../../x", True, 0.5])


def test_a_strangers_checkpoint_ends_in_a_sentence(finished, tmp_path, capsys):
    rng = random.Random(2)
    for trial in range(60):
        path = tmp_path / str(trial)
        shutil.copytree(finished, path)
        for file in path.glob("checkpoints/*/rest.json"):
            rest = json.loads(file.read_text())
            part = "places" if trial % 3 == 0 else "content"
            file.write_text(json.dumps(rest | {part: changed(rest[part], rng)}))
        resummed(path)
        code = main(["resume", str(path)])
        shown = capsys.readouterr()
        # A change that means nothing to a finished run may be taken.
        assert code in (0, 2), shown.err
        assert "Traceback" not in shown.err
        shutil.rmtree(path)


def test_damaged_arrays_with_right_checksums_end_in_a_sentence(
    finished, tmp_path, capfd
):
    rng = random.Random(4)
    for trial in range(40):  # threads of orbax printed in about half of the tries
        path = tmp_path / str(trial)
        shutil.copytree(finished, path)
        for file in sorted(path.glob("checkpoints/*/arrays/**/*")):
            if file.is_file() and ("d" in file.parts[-2:] or trial % 4 == 0):
                data = file.read_bytes()
                file.write_bytes(rng.choice([rng.randbytes(len(data)), data[:-9], b""]))
        resummed(path)
        assert main(["resume", str(path)]) == 2
        shown = capfd.readouterr()
        assert "damaged: its arrays cannot be read" in shown.err
        assert len(shown.err.splitlines()) == 1, shown.err
        shutil.rmtree(path)


def test_a_part_of_an_array_cannot_be_larger_than_memory(tmp_path):
    import tensorstore

    places = {"places": [["float32", 0, [1]]], "content": {"array": 0}}
    base = {"driver": "file", "path": f"{tmp_path}/"}
    spec = {
        "driver": "zarr",
        "kvstore": {"driver": "ocdbt", "base": base, "path": "float32/"},
        "metadata": {"chunks": [10**12], "dtype": "<f4", "shape": [1]},
    }
    tensorstore.open(spec, create=True).result()
    with pytest.raises(arrays.Mismatch, match="bytes"):
        arrays.load(tmp_path, places)


def test_a_strangers_configuration_ends_in_a_sentence(
    finished, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(loop, "run_loop", lambda training: None)
    monkeypatch.setattr(Learner, "compile", lambda learner: None)
    rng = random.Random(3)
    original = yaml.safe_load((finished / "config.yaml").read_text())
    for trial in range(100):
        path = tmp_path / "x"
        path.mkdir()
        config = changed(original, rng)
        text = yaml.safe_dump(config) if trial % 2 else json.dumps(config)
        (path / "config.yaml").write_text(text)
        before = contents(path)
        words = ["rerun", path, "--out", tmp_path / "out", "--steps", "1"]
        code = main([str(word) for word in words])
        shown = capsys.readouterr()
        assert code in (0, 2), shown.err
        assert "Traceback" not in shown.err
        assert contents(path) == before
        assert {p.name for p in tmp_path.iterdir()} <= {"x", "out"}
        shutil.rmtree(path)


def test_a_pickle_in_a_strangers_arrays_is_not_opened(finished, tmp_path, capsys):
    path = tmp_path / "x"
    shutil.copytree(finished, path)

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "canary"), "w"))

    evil = np.array([Evil()], dtype=object)
    for file in (path / "replay").iterdir():
        np.save(file, evil, allow_pickle=True)
    resummed(path)
    for name in ("last", "best"):
        np.savez(path / "models" / name / "policy.npz", about=evil, weight_0=evil)
    for command in ("resume", "eval", "export", "video"):
        words = [command, str(path)]
        words += ["-o", str(tmp_path / "o.npz")] if command == "export" else []
        assert main(words) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "canary").exists()


def test_names_do_not_leave_the_output_directory(tmp_path, monkeypatch, capsys):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    for name in ("..", ".", "../x", "/tmp/x", "a/../../x", "~", "a\\b", "\x00", "a\nb"):
        words = ["train", "vpg", "--env", "Pendulum-v1", f"--exp_name={name}"]
        refused(words, tmp_path, capsys)
    env = "../../x:../../Pendulum-v1"
    refused(["train", "vpg", "--env", env], tmp_path, capsys)


def test_a_name_with_nul_in_a_manifest_ends_in_a_sentence(finished, tmp_path, capsys):
    path = tmp_path / "x"
    shutil.copytree(finished, path)
    for manifest in path.glob(f"checkpoints/*/{checkpoint.MANIFEST}"):
        sums = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(sums | {"../../replay/\0": "x"}))
    assert main(["resume", str(path)]) == 2
    assert "cannot be found" in capsys.readouterr().err


def test_a_run_that_is_a_link_to_itself_hides_no_other(finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "good_s0")
    (tmp_path / "loop_s0").symlink_to("loop_s0")
    (tmp_path / "loop_s0.yaml").write_text("seed: 0\n")
    (tmp_path / "loop_s0.json").write_text('{"state": "failed"}')
    assert main(["ls", str(tmp_path)]) == 0
    assert "good_s0" in capsys.readouterr().out


def test_the_message_of_another_state_names_few_of_many_parts():
    leaves = {f"['{i}']": np.zeros(1) for i in range(30)}
    with pytest.raises(arrays.Mismatch, match="and 26 more") as refused:
        arrays.unflatten({"a": 1.0}, leaves)
    assert len(str(refused.value)) < 200
