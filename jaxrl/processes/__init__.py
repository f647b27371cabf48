"""What operating systems know of: signals, threads, subprocesses, mpirun."""
