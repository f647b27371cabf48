"""Environments: gymnasium's at the border of the library, and pure ones in JAX."""

from jaxrl.envs.gym import spec_of

__all__ = ["spec_of"]
