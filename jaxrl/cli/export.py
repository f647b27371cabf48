"""`jaxrl export DIR -o policy.npz`."""

from jaxrl.cli import flags
from jaxrl.runs import reading
from jaxrl.show import onnx


def main(arguments: list[str]) -> int:
    parser = flags.Parser(
        "export DIR [-o policy.npz|policy.onnx] ...",
        "Writes the policy of a run, with its normaliser and action bounds, as one "
        "file: .npz for jaxrl.policy.Policy.load, which needs only NumPy, or .onnx.",
    )
    flags.add_agent(parser)
    flags.add_output(parser, "policy.npz")
    given = parser.parse(arguments)
    policy = reading.record(given.dir).policy(given.checkpoint)
    with flags.writing(given.output, (".npz", ".onnx")) as path:
        onnx.save(policy, path) if path.suffix == ".onnx" else policy.save(path)
    print(f"{given.output}: {policy.obs_size} observations in, {policy.action} out")
    return 0
