"""What a mistake says: to users of the command, and to users of Python."""

import pytest

import jaxrl
from jaxrl.errors import UserError, as_arguments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set --encoder mlp", "set encoder='mlp'"),
        ("set --encoder mlp to flatten", "set encoder='mlp' to flatten"),
        ("set --num_envs 3 or more", "set num_envs=3 or more"),
        ("needs --init_from DIR", "needs init_from=DIR"),
        ("--steps is the total", "steps= is the total"),
        ("remove it with --overwrite, or", "remove it with overwrite=True, or"),
        ("jaxrl new a.py --from sac writes it", "jaxrl new a.py --from sac writes it"),
        ("jaxrl resume a --steps 9; --steps N", "jaxrl resume a --steps 9; steps=N"),
    ],
)
def test_flags_become_arguments_with_their_values(text, expected):
    assert as_arguments(text) == expected


def test_python_is_answered_with_arguments(tmp_path):
    with pytest.raises(UserError, match="encoder='mlp'"):
        jaxrl.train("ppo", "CartPole-v1", encoder="nature_cnn", out=str(tmp_path))
    with pytest.raises(UserError, match="--from sac"):
        jaxrl.train(str(tmp_path / "absent.py"), "CartPole-v1", out=str(tmp_path))
    assert not any(tmp_path.iterdir())
