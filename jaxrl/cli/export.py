"""`jaxrl export DIR -o policy.npz`."""

import filecmp
from pathlib import Path

from jaxrl.cli import options
from jaxrl.errors import UserError
from jaxrl.runs import reading
from jaxrl.show import onnx
from jaxrl.show.writing import writing


def main(arguments: list[str]) -> int:
    given = options.parser("export").parse(arguments)
    policy = reading.record(given.dir).policy(given.model)
    with writing(given.output, (".npz", ".onnx")) as path:
        onnx.save(policy, path) if path.suffix == ".onnx" else policy.save(path)
        if not given.overwrite:
            _refuse_other(given.output, path)
    print(f"{given.output}: {policy.obs_size} observations in, {policy.action} out")
    return 0


def _refuse_other(output: Path, fresh: Path) -> None:
    """Refuses to replace a policy by another one."""
    if output.exists() and not filecmp.cmp(output, fresh, shallow=False):
        raise UserError(
            f"{output} exists and holds another policy; replace it with --overwrite, "
            "or choose another -o"
        )
