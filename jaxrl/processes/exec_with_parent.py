"""A program that ends with its parent: `python -m ...exec_with_parent PID PROGRAM ...`.

In a separate process, because a function between fork and exec can lock up in a
process that has threads, such as JAX's.
"""

import os
import sys

from jaxrl.processes.signals import die_with_parent


def main(parent: int, command: list[str]) -> None:
    """Becomes the program; the kernel kills it as soon as the parent is dead."""
    die_with_parent(parent)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
