"""`python -m jaxrl`: the command `jaxrl`, with this interpreter."""

from jaxrl.cli.main import main
from jaxrl.experiments import child

if __name__ == "__main__":
    child.die_with_the_runner()
    raise SystemExit(main())
