"""The learning-rate range check (Smith 2017, arXiv:1506.01186): which rates are too low, good, too high, and which diverge.

The model trains from its initial weights on the run's own batches while the rate grows by a constant factor from step to
step. A short run forgives what a long one does not: the bounds are upper bounds, and what is suggested lies well inside.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from train import checkpoint, metrics
from train.config import ConfigError, RunConfig
from train.distributed import Replica
from train.job import Job, fix_arithmetic, settle
from train.loop import drawn
from train.optimizer import Optimizer
from train.stopping import check_writable

FEWEST_STEPS = 20
MARGIN = 0.05  # of the whole fall, and of the loss before training: smaller differences are none
NOISE = 5.0  # standard errors: smaller differences between the highest and the lowest of many means may be chance
HOPELESS = 2.0  # times the first loss: the check ends there
RULE = "the rate of the steepest fall of the loss, at most a third of the rate at which it rises"
BAR, ROWS = 40, 25


@dataclass(frozen=True, slots=True)
class Regime:
    """A stretch of rates.

    Attributes:
        name: `too low` (the loss does not fall), `good` (it falls), `too high` (it falls no further and then rises), `diverged`
            (it is no number, or worse than before training).
        low, high: The first rate and the last.
    """

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        smoothed: Centred means of the losses that are finite.
        regimes: In order of rates.
        rises_at: The rate at which the loss has risen from its lowest value; None if it has not.
        suggested: By `RULE`; None if there is no good regime, or its end was not reached.
    """

    smoothed: tuple[float, ...]
    regimes: tuple[Regime, ...]
    rises_at: float | None
    suggested: float | None

    def regime_of(self, rate: float) -> str:
        """Return the name of the regime in which a rate lies."""
        if not self.regimes[0].low <= rate <= self.regimes[-1].high:
            return "not checked"
        return next(regime.name for regime in reversed(self.regimes) if rate >= regime.low)

    def remedy(self) -> str | None:
        """Return what to change where nothing can be suggested."""
        names = [regime.name for regime in self.regimes]
        if self.suggested is not None:
            return None
        if self.rises_at is not None:
            return "the loss never falls: lower --low."
        if "good" in names:
            return "the loss still falls at the highest rate: raise --high."
        return "the loss neither falls nor rises: raise --high, or --steps where losses are noisy."


def analyse(rates: Sequence[float], losses: Sequence[float]) -> Finding:
    """Name the regimes.

    Args:
        rates: Each a constant factor above the one before.
        losses: Of the batch at each rate, before its update. May end early, and only the last may be not finite.
    """
    finite = losses if math.isfinite(losses[-1]) else losses[:-1]
    half = max(1, len(rates) // 30)
    # The first losses are of weights that know nothing, and hardly vary: there the window is small, and sees no later rise.
    smooth = [statistics.fmean(finite[at - min(at, half) : at + min(at, half) + 1]) for at in range(len(finite))]
    if not smooth:
        return Finding((), (Regime("diverged", rates[0], rates[0]),), rates[0], None)
    start, lowest = smooth[0], min(range(len(smooth)), key=smooth.__getitem__)
    fall = start - smooth[lowest]
    margin = max(MARGIN * fall, NOISE * _noise(finite[: lowest + 1]) / math.sqrt(2 * half + 1))

    def first_above(bound: float) -> int:
        """Return the first index behind the lowest whose loss is above the bound, or that of the end of finite losses."""
        return next((at for at in range(lowest, len(smooth)) if smooth[at] > bound), len(smooth))

    rises, diverges = first_above(smooth[lowest] + margin), first_above(start + max(margin, MARGIN * start))
    learns = fall > 2 * margin
    risen = (rises if learns else diverges) < len(losses)
    ends = {"too high" if risen else "too low": diverges}
    steepest = None
    if learns:
        falls = 1 + max(at for at in range(lowest) if smooth[at] > start - margin)
        level = next(at for at in range(falls, lowest + 1) if smooth[at] <= smooth[lowest] + margin)
        steepest = max(range(falls, level + 1), key=lambda at: smooth[at - 1] - smooth[min(at + 1, lowest)])
        ends = {"too low": falls, "good": level + 1 if risen else len(losses), "too high": diverges}
    regimes, begin = [], 0
    for name, end in (ends | {"diverged": len(losses)}).items():
        if end > begin:
            regimes.append(Regime(name, rates[begin], rates[end - 1]))
            begin = end
    return Finding(
        smoothed=tuple(smooth),
        regimes=tuple(regimes),
        rises_at=rates[rises] if risen else None,
        suggested=min(rates[steepest], rates[rises] / 3) if risen and steepest is not None else None,
    )


def check(config: RunConfig, *, low: float, high: float, steps: int) -> Finding:
    """Train once over rates from `low` to `high`, write lr_range.json into the output, print the finding.

    Reads no checkpoint and writes none.

    Raises:
        ConfigError: If the rates or the steps make no sweep.
        TrainError: If the data cannot be trained on.
    """
    if not 0 < low < high < math.inf:
        raise ConfigError(f"--low {low:g} --high {high:g}: must be greater than 0, and the second larger.")
    if steps < FEWEST_STEPS:
        raise ConfigError(f"--steps {steps}: must be at least {FEWEST_STEPS}.")
    check_writable(config.output)
    job = settle(config)
    if job.num_steps < steps:
        raise ConfigError(
            f"--steps {steps}: the run has batches for {job.num_steps}. Lower --steps, or train on more tokens."
        )
    job.data.verify()
    rates = [low * (high / low) ** (step / (steps - 1)) for step in range(steps)]
    losses = _losses(job, rates)
    finding = analyse(rates, losses)
    preset = {"rate": job.settings.lr, "regime": finding.regime_of(job.settings.lr)}
    numbers = [loss if math.isfinite(loss) else None for loss in losses]
    config.output.mkdir(parents=True, exist_ok=True)
    path = config.output / "lr_range.json"
    checkpoint.write_json(
        path,
        {"low": low, "high": high, "steps": steps, "rule": RULE, "configured": preset}
        | {key: value for key, value in asdict(finding).items() if key != "smoothed"}
        | {"rates": rates[: len(losses)], "losses": numbers, "smoothed": finding.smoothed, "run": job.record()},
    )
    print(table(rates, losses, finding))
    print(_verdict(finding, job.settings.lr))
    print(f"written to {path}")
    return finding


def _losses(job: Job, rates: Sequence[float]) -> list[float]:
    """Return the loss of one batch after another, each before the update at its rate, until it is hopeless."""
    settings, device = job.settings, job.device
    fix_arithmetic(settings.threads, device)
    replica = Replica(drawn(job), "single", compiled=job.compiled, z_loss=settings.z_loss)
    updates = Optimizer(replica.decoder, settings)
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=job.precision == "bfloat16")
    losses: list[float] = []
    for step, rate in enumerate(rates):
        inputs, targets = (torch.from_numpy(one).to(device) for one in job.data.train.batch(step))  # (S, T)
        nats = 0.0
        for start in range(0, len(inputs), job.micro_batch):
            end = start + job.micro_batch
            with autocast:
                loss, part = replica.loss(inputs[start:end], targets[start:end])
            (loss / targets.numel()).backward()  # type: ignore[no-untyped-call]
            nats += part.item()
        losses.append(nats / targets.numel())
        if not losses[-1] <= HOPELESS * losses[0]:
            break
        replica.clip(settings.clip)
        updates.set_learning_rate(rate)
        updates.step()
        updates.zero_grad()
        if step % settings.log_every == 0:
            metrics.say(f"step {step + 1}/{len(rates)}  lr {rate:.2e}  loss {losses[-1]:.4f}")
    return losses


def table(rates: Sequence[float], losses: Sequence[float], finding: Finding) -> str:
    """Return a line for each of at most `ROWS` rates: the rate, the smoothed loss as number and bar, the regime."""
    top = max(finding.smoothed[:1] or (1.0,)) * 1.25
    lines = ["rate        loss"]
    for row in range(min(ROWS, len(losses))):
        at = round(row * (len(losses) - 1) / max(1, min(ROWS, len(losses)) - 1))
        loss = finding.smoothed[at] if at < len(finding.smoothed) else math.inf
        bar = "#" * round(BAR * min(loss, top) / top)
        number = f"{loss:8.4f}" if math.isfinite(loss) else "no number"
        lines.append(f"{rates[at]:.2e}  {number:<9}  {bar:<{BAR}}  {finding.regime_of(rates[at])}")
    return "\n".join(lines)


def _verdict(finding: Finding, configured: float) -> str:
    lines = [f"{regime.name:<9} {regime.low:.2e} to {regime.high:.2e}" for regime in finding.regimes]
    if finding.suggested is None:
        lines.append(f"no rate can be suggested: {finding.remedy()}")
    else:
        lines.append(f"suggested {finding.suggested:.2e}: {RULE} ({finding.rises_at:.2e})")
    return "\n".join([*lines, f"the configured rate {configured:.2e} is {finding.regime_of(configured)}"])


def _noise(losses: Sequence[float]) -> float:
    """Return the standard deviation of losses around a slow curve, from the differences of neighbours.

    The median of absolute differences: 1.4826 of it is the deviation if Gaussian, over sqrt(2) for one of the two.
    """
    steps = [abs(second - first) for first, second in itertools.pairwise(losses)]
    return 1.4826 * statistics.median(steps) / math.sqrt(2) if steps else 0.0
