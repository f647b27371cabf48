"""One rank's share of settings that count all ranks together."""

import dataclasses
import fractions

from jaxrl.parallel import mpi
from jaxrl.runs.spec import Run
from jaxrl.types import OffPolicy, OnPolicy

LARGEST_DENOMINATOR = 10**6  # so that 0.1 is 1/10, and 0.3333333333333333 is 1/3


def exact_ratio(value: float) -> fractions.Fraction:
    """A setting as the fraction that was meant, so that counts do not drift."""
    return fractions.Fraction(float(value)).limit_denominator(LARGEST_DENOMINATOR)


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
    def round_steps(self) -> int:
        """Steps of all ranks between two rounds of updates."""
        assert isinstance(self.data, OffPolicy)
        return -(-self.data.update_every // self.total_envs) * self.total_envs

    @property
    def updates_per_round(self) -> fractions.Fraction:
        """On average; a round has this many rounded down or up."""
        assert isinstance(self.data, OffPolicy)
        return self.round_steps * exact_ratio(self.data.updates_per_step)

    @property
    def round_sizes(self) -> list[int]:
        """The numbers of updates that a round can have, except 0."""
        low, rest = divmod(self.updates_per_round, 1)
        return [n for n in ([low, low + 1] if rest else [low]) if n]

    def updates_at(self, env_steps: int) -> int:
        """Updates due after `env_steps` steps; 0 between rounds.

        After n rounds there were n times `updates_per_round`, rounded down. This
        follows from the steps alone, so resumed runs and all ranks agree on it.
        """
        assert isinstance(self.data, OffPolicy)
        steps = self.round_steps
        first = max(-(-self.data.update_after // steps), 1)
        rounds = env_steps // steps - first + 1
        if env_steps % steps or rounds < 1:
            return 0
        totals = (int(n * self.updates_per_round) for n in (rounds, rounds - 1))
        return next(totals) - next(totals)

    def random_actions(self, env_steps: int) -> int:
        """How many environments act randomly in the next step; may exceed their number.

        In all, exactly `start_steps` actions are random; lower ranks take theirs first.
        """
        due = getattr(self.data, "start_steps", 0) - env_steps
        return due - self.rank * self.data.num_envs


def with_counts(run: Run, devices: int) -> Run:
    """The run with the numbers of processes and devices that there are."""
    ranks = mpi.size()
    if run.num_procs not in (0, 1, ranks):
        there = "is one process" if ranks == 1 else f"are {ranks} processes"
        raise ValueError(
            f"num_procs is {run.num_procs}, but there {there}; start it under mpirun "
            f"-n {run.num_procs}"
        )
    return dataclasses.replace(run, num_procs=ranks, devices=devices)
