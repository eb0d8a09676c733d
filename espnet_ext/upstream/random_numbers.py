"""Each process of a training has its own random numbers.

ESPnet 202611 seeds all processes, and their workers that read data, with the same
numbers in each epoch: all GPUs would draw the same dropout masks. Here the rank is
mixed into the seed; rank 0 draws what it draws in ESPnet. The order of batches and the
initial values, which must be the same in all processes, come from elsewhere and stay as
they are.
"""

import torch
from espnet2.iterators import category_iter_factory, sequence_iter_factory
from espnet2.torch_utils import set_all_random_seed as seeding
from espnet2.train import trainer

# Between ranks: a prime beyond any number of epochs and workers, which ESPnet adds to
# the seed, so that no two processes ever draw the same.
_STEP = 1_000_003
_seed_all = seeding.set_all_random_seed
_seed_worker = sequence_iter_factory.worker_init_fn


def seed_by_rank() -> None:
    """Apply this to all trainings of this process. Calling it again changes nothing."""
    trainer.set_all_random_seed = seed_process
    # from where DeepSpeed's trainer, imported later, takes it
    seeding.set_all_random_seed = seed_process
    # modules that have imported the function by name
    sequence_iter_factory.worker_init_fn = seed_worker
    category_iter_factory.worker_init_fn = seed_worker


def seed_process(seed: int) -> None:
    """Seed all generators of this process for an epoch."""
    _seed_all(mix_in_rank(seed))


def seed_worker(worker_id: int, base_seed: int = 0) -> None:
    """Seed a worker that reads data.

    It was forked from its process, and so has its rank.
    """
    _seed_worker(worker_id, mix_in_rank(base_seed))


def mix_in_rank(seed: int) -> int:
    """Return the seed of this process, below 2 ** 32 as NumPy needs it."""
    rank = 0
    if torch.distributed.is_initialized():
        rank = torch.distributed.get_rank()
    return (seed + _STEP * rank) % 2**32
