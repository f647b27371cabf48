"""`python -m jaxrl`: the command `jaxrl`, with this interpreter."""

from jaxrl.cli.main import main
from jaxrl.processes import subprocesses

if __name__ == "__main__":
    subprocesses.die_with_the_runner()
    raise SystemExit(main())
