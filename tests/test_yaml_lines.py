"""YAML as plain data with lines."""

import pytest

from jaxrl import yaml_lines
from jaxrl.errors import UserError


def read(tmp_path, text, **options):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    return yaml_lines.read(str(file), **options)


def test_every_value_has_its_line(tmp_path):
    text = "lr: [1e-3,\n  2]\nzip:\n- {tau: 0.1,\n   keep: [1]}\n"
    data, lines, mistakes = read(tmp_path, text)
    assert data == {"lr": ["1e-3", 2], "zip": [{"tau": 0.1, "keep": [1]}]}
    assert not mistakes
    assert {place: lines[place] for place in lines if place} == {
        ("lr",): 1,
        ("lr", 0): 1,
        ("lr", 1): 2,
        ("zip",): 3,
        ("zip", 0): 4,
        ("zip", 0, "tau"): 4,
        ("zip", 0, "keep"): 5,
        ("zip", 0, "keep", 0): 5,
    }


def test_keys_that_are_set_twice_are_found_all_at_once(tmp_path):
    text = "a: 1\na: 2\nb:\n  c: 3\n  c: 4\na: 5\n"
    mistakes = read(tmp_path, text).mistakes
    assert [line for line, _ in mistakes] == [2, 5, 6]
    assert all("already set on line" in sentence for _, sentence in mistakes)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: 1\nb: !!python/name:os.x", "line 2"),
        ("a: 1\n? [1]\n: 3", "line 2"),
        ("a: &a [*a]", "contains itself"),
        ("a: 1\nb: !!timestamp z", "line 2"),
        ("a: 1\nb: 2001-99-99", "line 2"),
        ("- 1", "must hold settings"),
    ],
)
def test_what_cannot_be_read_as_data_is_refused(tmp_path, text, part):
    with pytest.raises(UserError, match=part):
        read(tmp_path, text)


def test_aliases_and_merges_are_followed_up_to_a_limit(tmp_path):
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n"
    data, _, mistakes = read(tmp_path, text)
    assert data["b"] == {"x": 1, "y": 3}
    assert data["c"] == data["a"]
    assert not mistakes
    names = "abcdefghijklmnopqrst"
    bomb = "a: &a [1, 1]\n" + "".join(
        f"{name}: &{name} [*{names[i]}, *{names[i]}]\n"
        for i, name in enumerate(names[1:])
    )
    with pytest.raises(UserError, match="100000"):
        read(tmp_path, bomb)


def test_a_section_can_be_kept_as_it_is_written(tmp_path):
    text = "time: 4:00:00\nslurm: {time: 4:00:00, cpus: 010, sbatch: {hold: true}}"
    data, _, _ = read(tmp_path, text, as_text=["slurm"])
    assert data["time"] == 14400
    expected = {"time": "4:00:00", "cpus": "010", "sbatch": {"hold": "true"}}
    assert data["slurm"] == expected


@pytest.mark.parametrize("text", ["{", "!!timestamp z", "!!bool q", "[" * 5000])
def test_text_that_is_not_yaml_is_a_value_error(text):
    with pytest.raises(ValueError):
        yaml_lines.parsed(text)
