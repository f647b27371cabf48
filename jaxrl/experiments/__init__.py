"""Many runs: grids of them, started side by side."""
