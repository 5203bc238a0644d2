"""Several processes that train as one: torchrun starts them, each computes its share of every batch.

    batch of S sequences  ->  rank r of W: sequences [r R, r R + R), R = S / W rounded up; what is missing is ignored
    loss and gradient     ->  sums over the ranks, of shares that were divided by the targets of the whole batch
    weights, moments      ->  on every rank (DDP: Li et al. 2020, arXiv:2006.15704), or a part on each (FSDP2: Zhao et al.
                              2023, arXiv:2304.11277)

Nothing that is kept depends on W. Rank 0 alone writes: the folder of the others is thrown away.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from train import model
from train.config import ConfigError, RunConfig, TrainError
from train.loss import IGNORED, summed_loss

T = TypeVar("T")
Kind = Literal["single", "ddp", "fsdp"]
Tensors = Mapping[str, dict[str, Tensor]]

TIMEOUT = timedelta(minutes=30)  # longer than rank 0 takes to read all shards, or to write a checkpoint
BYTES_PER_PARAMETER = 16  # weight, gradient and two moments, float32
LARGEST_SHARE = 0.4  # of a GPU's memory that these may take whole: the rest is for activations


class Ranks:
    """The processes of a run. In a run of one process nothing here does anything.

    Attributes:
        rank: Of this process, from 0.
        size: How many there are.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size
        self._asked: tuple[Any, Tensor] | None = None

    @property
    def first(self) -> bool:
        """Return whether this is the process that writes."""
        return self.rank == 0

    def told(self, value: T) -> T:
        """Return the value that rank 0 has."""
        if self.size == 1:
            return value
        values = [value if self.first else None]
        torch.distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]  # type: ignore[return-value]

    def told_tensors(self, tensors: Tensors) -> Tensors:
        """Return the tensors that rank 0 has, on the CPU."""
        if self.size == 1:
            return tensors
        shapes = {group: {name: (t.shape, t.dtype) for name, t in named.items()} for group, named in tensors.items()}
        result: dict[str, dict[str, Tensor]] = {}
        for group, named in self.told(shapes).items():
            result[group] = {}
            for name, (shape, dtype) in named.items():
                tensor = tensors[group][name] if self.first else torch.empty(shape, dtype=dtype)
                torch.distributed.broadcast(tensor, src=0)
                result[group][name] = tensor
        return result

    def rows(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return this rank's share of a batch; both of shape (S, T), the share of S / size sequences rounded up."""
        if self.size == 1:
            return inputs, targets
        share = -(-len(inputs) // self.size)
        mine = slice(self.rank * share, (self.rank + 1) * share)
        missing = (0, 0, 0, share - len(inputs[mine]))
        return (
            nn.functional.pad(inputs[mine], missing),
            nn.functional.pad(targets[mine], missing, value=IGNORED),
        )

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum over the ranks. On a GPU the host does not wait for it."""
        if self.size > 1:
            torch.distributed.all_reduce(value)
        return value

    def merged(self, found: dict[int, T]) -> dict[int, T]:
        """Return what all ranks found; where several have found the same, what the first of them has."""
        if self.size == 1:
            return found
        parts: list[dict[int, T]] = [{}] * self.size
        torch.distributed.all_gather_object(parts, found)
        return {key: value for one in reversed(parts) for key, value in one.items()}

    def agreed(self, code: int | None) -> int | None:
        """Return the exit code that a rank asked for, the same on all ranks; to be called after each step.

        The answer is that of the step before: by then it is there, and no step waits for it. It travels between hosts: no
        GPU is stopped.
        """
        if self.size == 1:
            return code
        before, wish = self._asked, torch.tensor(code or 0)
        self._asked = torch.distributed.all_reduce(wish, torch.distributed.ReduceOp.MAX, async_op=True), wish
        if before is None:
            return None
        work, answer = before
        work.wait()
        return int(answer) or None


ALONE = Ranks()


class Objective(nn.Module):
    """Decoder and loss in one module: FSDP gathers the head's weights only while its outermost module runs."""

    def __init__(self, decoder: model.Decoder, *, compiled: bool, z_loss: float) -> None:
        super().__init__()
        self.decoder = decoder
        self._loss = functools.partial(summed_loss, num_ids=decoder.num_ids, z_loss=z_loss, compiled=compiled)

    def forward(self, inputs: Tensor, targets: Tensor | None = None) -> Any:
        """Return `summed_loss` of `targets`, or without them the hidden states; both of shape (B, T)."""
        hidden = self.decoder(inputs)  # (B, T, C)
        return hidden if targets is None else self._loss(hidden, self.decoder.padded_head_weight, targets)


class Replica:
    """The model as this rank trains it: whole, or its part.

    Attributes:
        decoder: Its parameters are those that the optimizer updates.
        objective: Decoder and loss, without what sums the gradients: for evaluation.
        kind: How it is spread.
    """

    def __init__(self, decoder: model.Decoder, kind: Kind, *, compiled: bool, z_loss: float = 0.0) -> None:
        """Spread the decoder, whose weights are the same on all ranks, over them."""
        self.decoder = decoder
        self.objective = Objective(decoder, compiled=compiled, z_loss=z_loss)
        self.kind = kind
        if compiled and kind == "single":
            decoder.compile(dynamic=False)
        elif (
            compiled
        ):  # by blocks: a gradient is on its way as soon as its block is done; without the hooks that send it
            for block in decoder.blocks:
                block.forward = torch.compile(block.forward, dynamic=False)
        self._training: nn.Module = self.objective
        if self.kind == "ddp":
            ddp = nn.parallel.DistributedDataParallel
            # The buffers are constants. torch 2.13 renamed the argument, and warns of the old name.
            new = "forward_sync_buffers" in inspect.signature(ddp).parameters
            constant: Any = {"forward_sync_buffers" if new else "broadcast_buffers": False}
            self._training = ddp(self.objective, gradient_as_bucket_view=True, **constant)
            self._training.register_comm_hook(None, lambda _, bucket: _summed(bucket))
        elif self.kind == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import FSDPModule, fully_shard

            # Named: where there is a GPU, a model on the CPU would be taken there.
            mesh = init_device_mesh(next(decoder.parameters()).device.type, (torch.distributed.get_world_size(),))
            for module in (*decoder.blocks, self.objective):
                fully_shard(module, mesh=mesh)
                assert isinstance(module, FSDPModule)
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)

    def loss(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is minimised, and the nats in it, both summed over targets, shape (B, T) as inputs."""
        return self._training(inputs, targets)  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def accumulating(self, *, last: bool) -> Iterator[None]:
        """Run a forward and backward pass; gradients are summed over the ranks only in the last one of a step."""
        if self.kind == "ddp" and not last:
            with self._training.no_sync():  # type: ignore[operator]
                yield
            return
        if self.kind == "fsdp":
            self.objective.set_requires_gradient_sync(last)  # type: ignore[operator]
            self.objective.set_is_last_backward(last)  # type: ignore[operator]
        yield

    def clip(self, limit: float) -> Tensor:
        """Scale the gradient to an L2 norm of at most `limit`, over all ranks; return what it was."""
        parameters = list(self.decoder.parameters())
        norm = whole(nn.utils.get_total_norm(p.grad for p in parameters if p.grad is not None))
        nn.utils.clip_grads_with_norm_(parameters, limit, norm)
        return norm

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Hold the head's weights whole inside of the block: `objective` gives hidden states. All ranks come here."""
        if self.kind != "fsdp":
            yield
            return
        self.objective.unshard()  # type: ignore[operator]
        try:
            yield
        finally:
            self.objective.reshard()  # type: ignore[operator]

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Set the weights to those of a checkpoint."""
        with torch.no_grad():
            for name, parameter in self.decoder.named_parameters():
                parameter.copy_(part(tensors[name], parameter))


def kind(parallel: Literal["auto", "ddp", "fsdp"], ranks: Ranks, *, parameters: int, device: torch.device) -> Kind:
    """Return how a model of so many parameters is spread: `auto` divides it only if a GPU's memory is too small for it."""
    if ranks.size == 1:
        return "single"
    if parallel != "auto":
        return parallel
    if device.type != "cuda":
        return "ddp"
    memory = torch.cuda.get_device_properties(device).total_memory
    return "fsdp" if BYTES_PER_PARAMETER * parameters > LARGEST_SHARE * memory else "ddp"


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor of which each rank may hold a part, whole. All ranks come here."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def part(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor that all ranks hold, on the device of `like` and divided as it is."""
    if not hasattr(like, "full_tensor"):
        return tensor.to(like.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    here = tensor.to(like.device)
    return distribute_tensor(here, like.device_mesh, like.placements, src_data_rank=None)


def gathered(tensors: Tensors, ranks: Ranks) -> Tensors:
    """Return whole tensors on rank 0, from a GPU copied to the host's memory; nothing on the others. All ranks come here."""
    result: dict[str, dict[str, Tensor]] = {group: {} for group in tensors}
    for group, named in tensors.items():
        for name, tensor in named.items():
            full = whole(tensor.detach())
            if ranks.first and full.is_cuda:
                pinned = torch.empty(full.shape, dtype=full.dtype, pin_memory=True)
                result[group][name] = pinned.copy_(full, non_blocking=True)
            elif ranks.first:
                result[group][name] = full
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result


@contextlib.contextmanager
def joined(config: RunConfig) -> Iterator[tuple[Ranks, RunConfig]]:
    """Join the processes that torchrun started with this one, if it did; leave together at the end of the block.

    Yields:
        The ranks, and the config for this one: that of rank 0 names the output, those of the others a folder of their own.

    Raises:
        ConfigError: If torchrun's environment is not whole.
        TrainError: If another process ends or does not answer.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    found = {name: os.environ[name] for name in names if name in os.environ}
    if found.get("WORLD_SIZE", "1") == "1":
        yield Ranks(), config
        return
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigError(
            f"WORLD_SIZE is {found['WORLD_SIZE']}, but {', '.join(missing)} is not set. Start with torchrun, or unset WORLD_SIZE."
        )
    ranks = Ranks(int(found["RANK"]), int(found["WORLD_SIZE"]))
    backend = _backend(config, int(found["LOCAL_RANK"]))
    with tempfile.TemporaryDirectory(prefix="train-rank-") as folder:
        try:
            torch.distributed.init_process_group(backend, timeout=TIMEOUT)
            yield ranks, config if ranks.first else dataclasses.replace(config, output=Path(folder))
            torch.distributed.barrier()
        except RuntimeError as error:  # gloo has no class of its own
            if not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error):
                raise
            raise TrainError(
                f"rank {ranks.rank} of {ranks.size}: another rank ended, or did not answer within {TIMEOUT}; its own message "
                f"says why. Start again to go on from the last checkpoint. ({str(error).splitlines()[0]})"
            ) from error
        # torchrun ends the others as soon as one has left; they have nothing left to do but to say the same.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        torch.distributed.destroy_process_group()


def _backend(config: RunConfig, local_rank: int) -> str:
    """Choose this process's GPU, if there is one; return the backends."""
    if config.settings.device == "cpu" or not torch.cuda.is_available():
        return "gloo"
    if local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"{config.path}: local rank {local_rank} has no GPU, there are {torch.cuda.device_count()} here. Start as many "
            "processes as there are GPUs (--nproc_per_node), or set the override device: cpu."
        )
    torch.cuda.set_device(local_rank)
    return "cpu:gloo,cuda:nccl"  # what hosts tell each other does not wait for a GPU


def _summed(bucket: Any) -> torch.futures.Future[Tensor]:
    """Sum a bucket of gradients; DDP itself takes the mean."""
    work = torch.distributed.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None
    result: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return result
