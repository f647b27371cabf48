"""One rank's part of numbers that mean all ranks together."""

import dataclasses

from jaxrl.types import OffPolicy, OnPolicy


@dataclasses.dataclass(frozen=True)
class Share:
    """Of the data that `ranks` processes gather, each in `num_envs` environments."""

    data: OnPolicy | OffPolicy
    rank: int = 0
    ranks: int = 1

    @property
    def total_envs(self) -> int:
        """Environments in all, and so the steps that one step of each makes."""
        return self.data.num_envs * self.ranks

    def split(self, count: int) -> int:
        """Of things that need not be as many for each rank."""
        return count // self.ranks + (self.rank < count % self.ranks)

    @property
    def for_devices(self) -> tuple[int, str]:
        """How much this rank's devices share, and of what."""
        if isinstance(self.data, OnPolicy):
            return self.data.num_envs, "num_envs"
        return self.batch_size, "the batch"

    # On-policy

    @property
    def rollout_steps(self) -> int:
        """Of each environment."""
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
        """As many as the steps in all since the round before."""
        assert isinstance(self.data, OffPolicy)
        return -(-self.data.update_every // self.total_envs) * self.total_envs

    def random_actions(self, taken: int) -> int:
        """Of the next step, how many environments' actions are by chance, or more.

        In all they are exactly `start_steps`; the ranks before have their part first.
        """
        due = getattr(self.data, "start_steps", 0) - taken
        return due - self.rank * self.data.num_envs
