"""Learning together: on several devices by pmap, in several processes by MPI."""
