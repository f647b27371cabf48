"""`jaxrl video DIR [-o agent.mp4 ...]`."""

from jaxrl.cli import options
from jaxrl.runs import reading
from jaxrl.show import agent, video
from jaxrl.show.writing import writing


def main(arguments: list[str]) -> int:
    given = options.parser("video").parse(arguments)
    run = reading.record(given.dir)
    episodes, seed = given.num_test_episodes, given.seed
    code = agent.Code(algo=given.algo)
    with writing(given.output, video.SUFFIXES) as path:
        count = video.record_run(
            path, run, given.model, given.max_len, episodes, seed, code
        )
    print(f"{given.output}: {run.name} in {count} frames")
    return 0
