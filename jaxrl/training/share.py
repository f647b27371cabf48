"""One rank's share of settings that count all ranks together."""

import dataclasses

from jaxrl.types import OffPolicy, OnPolicy


@dataclasses.dataclass(frozen=True)
class Share:
    """The share of one of `ranks` processes, each with `num_envs` environments."""

    data: OnPolicy | OffPolicy
    rank: int = 0
    ranks: int = 1

    @property
    def total_envs(self) -> int:
        """Environments in all, and so the steps that one step of each makes."""
        return self.data.num_envs * self.ranks

    def split(self, count: int) -> int:
        """The part of a count for this rank; it need not divide evenly."""
        return count // self.ranks + (self.rank < count % self.ranks)

    @property
    def for_devices(self) -> tuple[int, str]:
        """What this rank's devices divide among them, as a size and its name."""
        if isinstance(self.data, OnPolicy):
            return self.data.num_envs, "num_envs"
        return self.batch_size, "the batch"

    # On-policy

    @property
    def rollout_steps(self) -> int:
        """Steps of each environment in a rollout."""
        steps, count = self.data.steps_per_epoch, self.total_envs
        if steps % count:
            raise ValueError(
                f"steps_per_epoch is {steps}, but {count} environments must share the "
                f"steps evenly; make it a multiple of {count}"
            )
        return steps // count

    # Off-policy

    @property
    def batch_size(self) -> int:
        assert isinstance(self.data, OffPolicy)
        size = self.data.batch_size
        if size % self.ranks:
            raise ValueError(
                f"batch_size is {size}, but {self.ranks} processes must share it "
                f"evenly; make it a multiple of {self.ranks}"
            )
        return size // self.ranks

    @property
    def replay_size(self) -> int:
        assert isinstance(self.data, OffPolicy)
        return max(self.data.replay_size // self.ranks, 1)

    @property
    def updates_per_round(self) -> int:
        """As many updates as steps of all ranks since the round before."""
        assert isinstance(self.data, OffPolicy)
        return -(-self.data.update_every // self.total_envs) * self.total_envs

    def random_actions(self, env_steps: int) -> int:
        """How many environments act randomly in the next step; may exceed their number.

        In all, exactly `start_steps` actions are random; lower ranks take theirs first.
        """
        due = getattr(self.data, "start_steps", 0) - env_steps
        return due - self.rank * self.data.num_envs
