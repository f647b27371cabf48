"""Looking at runs: agents at work, learning curves, videos."""
