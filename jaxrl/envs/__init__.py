"""Environments: gymnasium's at the border of the library, and pure ones in JAX."""

from jaxrl.envs.gym import Environments, spec_of

__all__ = ["Environments", "spec_of"]
