"""Reinforcement learning as pure functions in JAX."""

__version__ = "0.1.0"
