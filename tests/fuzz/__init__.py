"""Mutated input for every command, each case checked by the same rules.

    python -m tests.fuzz                     # 1000 cases (nox -s fuzz)
    python -m tests.fuzz --cases 100         # the short run in the ordinary tests
    python -m tests.fuzz --case 123          # one case again, with its output

A case is made from the seed and its number alone. It has its own directory with
runs and files, of which one is mutated (mutations.py), or the command line is
(cases.py). The command runs in a fork of a process that has imported everything
(processes.py). A case fails if

- the exit code is not 0, 1 or 2, or there is a traceback;
- it takes more than 20 s or 1 GB;
- anything changed that the command may not write (sandbox.py);
- the output or a new file holds the secret that is outside of the runs;
- a process or a temporary file is left;
- a damaged run hides its neighbour in `ls`, `plot` or `report`.

A command that trains is asked to stop after some seconds, because a mutated number of
steps may be right and large; exit code 143 is then right too.
"""

import os

# Before NumPy is imported: a process with threads must not be forked.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"):
    os.environ[threads] = "1"
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
os.environ["WANDB_MODE"] = "disabled"
os.environ["PYTHONPATH"] = os.getcwd()  # for the processes that a grid starts
os.environ["MPLBACKEND"] = "agg"
for display in ("DISPLAY", "WAYLAND_DISPLAY"):
    os.environ.pop(display, None)
