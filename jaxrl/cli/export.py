"""`jaxrl export DIR -o policy.npz`."""

from jaxrl.cli import options
from jaxrl.cli.flags import writing
from jaxrl.runs import reading
from jaxrl.show import onnx


def main(arguments: list[str]) -> int:
    given = options.parser("export").parse(arguments)
    policy = reading.record(given.dir).policy(given.model)
    with writing(given.output, (".npz", ".onnx")) as path:
        onnx.save(policy, path) if path.suffix == ".onnx" else policy.save(path)
    print(f"{given.output}: {policy.obs_size} observations in, {policy.action} out")
    return 0
