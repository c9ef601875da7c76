"""The training loop: steps, evaluation, saves, stopping; independent of specific losses and optional parts."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_

from coder_core.config.schema import Config
from coder_core.console.signals import StopRequest, StopRequestedError
from coder_core.data.batches import Batch
from coder_core.data.features import UnreadableRowsError
from coder_core.evaluation.metrics import Ranks
from coder_core.evaluation.rank_metrics import Metrics
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import CHOSEN_HALF, OTHER_HALF, half_metrics, metrics_of
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_owners, check_scores
from coder_core.model.device import autocast
from coder_core.model.encode import SplitEmbeddings, SplitEncoding, encode_split, score_split
from coder_core.ops import parallel
from coder_core.runs.change import describe_changes, worse_than_start
from coder_core.runs.record import STEPS_BETWEEN_LINES
from coder_core.training.comparison import Comparison
from coder_core.training.gradient_caching import PiecewiseModel
from coder_core.training.optim import check_gradients, gradient_norm, learning_rate, make_optimizer, set_rate
from coder_core.training.prepare import Prepared, make_objective
from coder_core.training.reporting import EpochReport, Reporter
from coder_core.training.state import Checkpoints, Position, TrainingState, environment
from coder_core.training.step import EpochEnd, Losses, check_losses, seed_step


class Trainer:
    """Training of one run from its current position to its end; the caller must hold the lock on its folder."""

    def __init__(
        self, config: Config, folder: Path, prepared: Prepared, device: torch.device, console: Console
    ) -> None:
        self.config = config
        self.prepared = prepared
        self.device = device
        self.model = prepared.model.to(device)
        self.objective = make_objective(config, prepared, device)
        self.per_epoch = prepared.batches.per_epoch
        self.steps = config.training.steps(self.per_epoch)
        joint = self.objective.joint_parameters()
        separate = self.objective.separate_parameters()
        model_parameters = dict(self.model.named_parameters())
        self.clip_groups = [model_parameters | joint, *separate]
        of_parts: dict[str, nn.Parameter] = {}
        for group in (*separate, joint):
            of_parts |= group

        self.part_parameters = list(of_parts.values())
        optimizer = make_optimizer(model_parameters | of_parts, config.training, device, config.towers)
        dev = prepared.data.dev
        self.comparison = None if dev is None else Comparison(dev.image_of_text)
        parts = self.objective.parts
        self.state = TrainingState(self.model, optimizer, parts, comparison=self.comparison)
        self.checkpoints = Checkpoints(folder, environment(config, device))
        self.reporter = Reporter(folder, console, config.training, self.per_epoch, device)
        self.first = parallel.rank() == 0
        self.batch_asked_at = time.monotonic()
        self._embed = self._wrap()

    @property
    def position(self) -> Position:
        """Progress of the run."""
        return self.state.position

    def _wrap(self) -> Any:
        size = self.config.training.piece_size
        compiled = self.config.training.compile
        wrapped: Any = self.model
        if size:  # inside DistributedDataParallel, which expects one forward call per step
            encoders: Any = torch.compile(wrapped) if compiled else wrapped
            wrapped = PiecewiseModel(encoders, size)
        if parallel.world_size() > 1:
            ids = [self.device.index or 0] if self.device.type == "cuda" else None
            of_several = torch.nn.parallel.DistributedDataParallel
            wrapped = of_several(wrapped, device_ids=ids, broadcast_buffers=False)
        return torch.compile(wrapped) if compiled and not size else wrapped

    def resume(self) -> None:
        """Restore the newest intact state; if none exists, start at the first step."""
        if self.first:
            self.checkpoints.states.tidy()  # leftovers of a killed process
            self.checkpoints.best.tidy()
        parallel.barrier()
        for fault in self.checkpoints.resume(self.state):
            self.reporter.display.say(f"warning: {fault}")

    def run(self) -> str:
        """Train until the end or a signal; return "finished" or "stopped". If the features become unreadable, save the
        state before raising the error."""
        self.model.train()
        with StopRequest() as stop, self.reporter.open(self.position):
            try:
                outcome = self._loop(stop)
                if outcome == "stopped":
                    self._save()
                self.reporter.end(outcome, self.position)
                return outcome
            except UnreadableRowsError as error:  # between two steps
                self._save()
                fix = f"restore the file, then coder-lab train --resume {self.reporter.folder}"
                saved = UnreadableRowsError([replace(fault, fix=fix) for fault in error.faults])
                self.reporter.end("failed", self.position, message=str(saved))
                raise saved from None
            except Exception as error:
                self.reporter.end("failed", self.position, message=str(error))
                raise

    def _loop(self, stop: StopRequest) -> str:
        if self.position.step == 0 and self.config.starts_trained:
            try:
                self._evaluate_start(stop)
            except StopRequestedError:
                return "stopped"

        while True:
            epochs_done = self._epochs_done()
            if self.position.evaluated < epochs_done:
                try:
                    self._end_epoch(stop)
                except StopRequestedError:
                    return "stopped"
            if self.position.step >= self.steps:
                return "finished"
            if 0 < (patience := self.config.training.patience) <= self.position.without_gain:
                spent = f"--patience {patience}: no later evaluation was better than that"
                best = self.position.best_step // self.per_epoch
                self.reporter.display.say(f"{spent} of epoch {best}, which is kept; training ends here")
                return "finished"
            self.batch_asked_at = time.monotonic()
            stop_at = min((epochs_done + 1) * self.per_epoch, self.steps)
            for batch in self.prepared.batches.stream(self.position.step, stop_at):
                self._step(batch)
                self.batch_asked_at = time.monotonic()
                if parallel.any_process(stop.signal != 0, self.device):
                    return "stopped"
            self._save()

    def _epochs_done(self) -> int:
        """Return the number of finished epochs; the run's last step ends an epoch that --max-steps cuts short."""
        whole, rest = divmod(self.position.step, self.per_epoch)
        cut_short = rest > 0 and self.position.step >= self.steps
        return whole + 1 if cut_short else whole

    def _step(self, batch: Batch) -> None:
        step = self.position.step
        training = self.config.training
        batch = batch.to(self.device)
        rate = learning_rate(step, self.steps, training, self.position.reductions)
        set_rate(self.state.optimizer, rate)
        seed_step(training.seed, step, parallel.rank())
        if step % self.per_epoch == 0:
            self.objective.begin_epoch(step // self.per_epoch)

        losses = self.objective.losses(
            self.model,
            batch,
            epoch=step / self.per_epoch,
            embed=self._embed,
            autocast=autocast(self.device, training.precision),
        )
        mean_loss, norm = self._update(losses, batch)
        self.objective.after_step(self.model, step)
        self.position.step += 1
        self.position.loss_sum += mean_loss
        seconds = time.monotonic() - self.batch_asked_at
        self.position.seconds += seconds
        ends_epoch = self.position.step % self.per_epoch == 0 or self.position.step == self.steps
        if ends_epoch or self.position.step % STEPS_BETWEEN_LINES == 0:
            reports = self.objective.report()
            self.reporter.step(
                self.position,
                losses,
                norm,
                reports,
                self.objective.facts(reports),
                learning_rate=rate,
                rate=training.batch_size / max(seconds, 1e-9),
            )

        if self.first and time.monotonic() - self.checkpoints.saved_at > training.save_every:
            self._save()

    def _update(self, losses: Losses, batch: Batch) -> tuple[float, Tensor]:
        """Run backward pass, clipping and optimizer step. Return the loss, a mean over all processes, and the norm of the
        model's gradient before clipping. NotFiniteError: the loss or a gradient is not finite."""
        self.state.optimizer.zero_grad(set_to_none=True)
        losses.total.backward()
        parallel.average_gradients(self.part_parameters)
        norms = [gradient_norm(group) for group in self.clip_groups]
        numbers = [losses.total.detach(), parallel.mean(losses.total), *norms]
        total, mean_loss, *read = torch.stack(numbers).tolist()  # one wait for a GPU, not one a number
        step = self.position.step
        check_losses(losses, total, batch, step)
        for group, norm in zip(self.clip_groups, read, strict=True):
            check_gradients(group, norm, batch, step)
        for group, norm in zip(self.clip_groups, norms, strict=True):
            clip_grads_with_norm_(group.values(), self.config.training.clip_norm, norm)
        self.state.optimizer.step()
        return mean_loss, norms[0]

    def _evaluate_start(self, stop: StopRequest) -> None:
        """Evaluate the model that the run starts from on dev; a concept branch, which has not been trained, does not
        count."""
        evaluated = self._evaluate(stop, beta=1.0)
        if evaluated is None or self.comparison is None:
            return
        metrics, ranks = evaluated
        self.comparison.set_start(ranks)
        self.reporter.write_event("before", self.position, metrics=metrics)
        self.reporter.display.say(
            f"{self.reporter.folder.name} before training: dev R@sum {metrics['rsum']:.1f}"
        )

    def _end_epoch(self, stop: StopRequest) -> None:
        """Evaluate on dev, keep the best model, record the epoch. The state after its last step is already saved."""
        position = self.position
        epoch = self._epochs_done()
        last = position.step >= self.steps
        due = epoch % self.config.training.evaluate_every == 0 or last
        evaluated = self._evaluate(stop, beta=self.config.model.beta) if due else None
        metrics = None if evaluated is None else evaluated[0]
        changes = {}
        if evaluated is not None and self.comparison is not None:
            changes = self.comparison.changes(evaluated[1])

        def embed_train() -> SplitEmbeddings:
            train = self.prepared.data.train
            tokens = self.prepared.words.train
            return encode_split(self.model, train, tokens, self._encoding(stop, "clustering"))

        end = EpochEnd(epoch, last, embed_train)
        reports = self.objective.end_epoch(end)
        score = None
        if metrics is not None:  # rank 0 decides: last bits may differ
            chosen_by = CHOSEN_HALF if self.config.training.choose_on == "half" else "rsum"
            score = parallel.broadcast_value(metrics[chosen_by], self.device)
        is_best = due and (score is None or position.best is None or score > position.best)
        if is_best:
            position.best = score
            position.best_step = position.step
            position.without_gain = 0
        elif due:
            position.without_gain += 1
            position.reductions += position.without_gain % self.config.training.plateau == 0
        position.evaluated = epoch
        steps = position.step - (epoch - 1) * self.per_epoch
        loss = position.loss_sum / steps
        position.loss_sum = 0.0
        if is_best and self.first:
            self.checkpoints.save_best(self.state, epoch, metrics)
        scored = {} if metrics is None else {"metrics": metrics, **changes}
        # Written before the save: a kill in between only repeats the line, and repeated lines count once.
        self.reporter.write_event(
            "epoch",
            position,
            epoch=epoch,
            loss=loss,
            best=is_best,
            seconds=round(position.seconds, 2),
            **scored,
            **reports,
        )
        self._save()
        facts = self.objective.facts(reports)
        before = (epoch - 1) // self.config.training.evaluate_every * self.config.training.evaluate_every
        facts = [*describe_changes(changes, before), *facts]
        report = EpochReport(epoch, metrics, position.seconds, loss, bool(is_best), facts, score)
        self.reporter.display.epoch(report)
        self.reporter.display.warn(worse_than_start({"epoch": epoch, **scored}, self.reporter.folder.name))
        parallel.barrier()

    def _evaluate(self, stop: StopRequest, *, beta: float) -> tuple[Metrics, Ranks] | None:
        """Return the metrics and the ranks on dev, or None without a dev split; `beta`: share of the instance branch in
        a score."""
        dev = self.prepared.data.dev
        tokens = self.prepared.words.dev
        if dev is None or tokens is None:
            return None
        sources, _ = score_split(self.model, dev, tokens, beta, self._encoding(stop, "evaluating dev"))
        scores = check_scores(sources)
        owner = check_owners(dev.image_of_text, *scores.shape)
        relevance = Relevance.of_labels(owner, scores.shape[0])
        ranks = rank(scores, relevance, best=0)
        metrics = metrics_of(scores, ranks, relevance)
        if self.config.training.choose_on == "half":
            first, second = half_metrics(sources, dev.image_of_text)
            metrics |= {CHOSEN_HALF: first["rsum"], OTHER_HALF: second["rsum"]}
        return metrics, ranks

    def _encoding(self, stop: StopRequest, activity: str) -> SplitEncoding:
        """Return how a split is encoded between two epochs."""
        show = self.reporter.display.scoring(f"{self.reporter.folder.name}, {activity}")
        progress = stop.watched(show) if parallel.world_size() == 1 else show
        return SplitEncoding(precision=self.config.training.precision, progress=progress)

    def _save(self) -> None:
        if self.first:
            self.checkpoints.save(self.state)
