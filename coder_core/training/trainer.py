"""The loop: steps, evaluation, saves, stopping. It knows nothing of what the losses are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.console.display import Display
from coder_core.cpu.peak_memory import peak_mebibytes
from coder_core.cpu.products import product_library
from coder_core.data.batches import Batch
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.model.encode import autocast, encode_split
from coder_core.model.scored import scored_split
from coder_core.runs.files.history import HISTORY, HistoryWriter
from coder_core.runs.files.saves import PROTOTYPES, SaveStore
from coder_core.runs.files.status import write_status
from coder_core.training import parallel
from coder_core.training.losses import Losses
from coder_core.training.optim import learning_rate, make_optimizer, set_rate
from coder_core.training.parts.boosting import make_boosting
from coder_core.training.parts.memory import make_memory
from coder_core.training.parts.neighbourhoods import make_neighbourhoods
from coder_core.training.parts.prototypes import make_guide
from coder_core.training.precision import twin_precision
from coder_core.training.prepare import Prepared
from coder_core.training.state import Circumstances, Position, capture, changed_circumstances, restore, seed_step
from coder_core.training.step import compute_losses
from coder_core.training.stopping import (
    StopRequest,
    StopRequestedError,
    check_gradients,
    check_losses,
    check_state,
)

STATES_KEPT = 2
STEPS_BETWEEN_LINES = 10  # of history.jsonl


class Trainer:
    """One run from its present position to its end.

    Args:
        config: of the run.
        folder: of the run; exists, locked by the caller.
        prepared: data and model.
        device: to train on.
        console: to show progress on.
    """

    def __init__(
        self, config: Config, folder: Path, prepared: Prepared, device: torch.device, console: Console
    ) -> None:
        self.config, self.folder, self.prepared, self.device = config, folder, prepared, device
        self.model = prepared.model.to(device)
        self.memory = make_memory(self.model, config)
        if self.memory is not None:
            self.memory.to(device)
        self.per_epoch = prepared.batches.per_epoch
        self.guide = make_guide(config, prepared.train.n_texts, self.per_epoch * config.training.batch_size)
        if self.guide is not None:
            self.guide.to(device)
        self.parameters = dict(self.model.named_parameters())
        if self.guide is not None:
            self.parameters["prototypes.classifier"] = self.guide.classifier
        extra = [self.guide.classifier] if self.guide is not None else []
        self.position = Position()
        self.steps = self.per_epoch * config.training.epochs
        self.boosting = make_boosting(config, self.model, self.steps, prepared.anchor, prepared.branches)
        self.beside = self.boosting.learned() if self.boosting is not None else []
        self.optimizer = make_optimizer(self.model, config.training, device, extra, prepared.branches)
        self.neighbourhoods = make_neighbourhoods(config, prepared)
        if self.neighbourhoods is not None:
            self.neighbourhoods.to(device)
        self.around = Circumstances(
            torch.__version__, torch.get_num_threads(), str(device), parallel.world_size(), product_library(),
            twin_precision(config.training, device),
        )  # fmt: skip
        self.states = SaveStore(folder / "state", keep=STATES_KEPT)
        self.best = SaveStore(folder / "best", keep=1)
        self.first = parallel.rank() == 0
        self.display = Display(console, folder.name, self.steps, self.per_epoch, quiet=not self.first)
        self._embed = self._wrap()
        self._saved_at = time.monotonic()

    def _wrap(self) -> Any:
        wrapped: Any = self.model
        if parallel.world_size() > 1:
            ids = [self.device.index or 0] if self.device.type == "cuda" else None
            wrapped = torch.nn.parallel.DistributedDataParallel(wrapped, device_ids=ids, broadcast_buffers=False)
        return torch.compile(wrapped) if self.config.training.compile else wrapped

    def resume(self) -> None:
        """Take up the newest state that verifies. Without any, the run starts at its first step."""
        if self.first:
            self.states.tidy()
            self.best.tidy()
        parallel.wait()
        save = self.states.newest()
        if save is None:
            return
        for fault in save.skipped:
            self.display.say(f"warning: passed over a damaged save: {fault}")
        self.position, before = restore(
            save, self.model, self.optimizer, self.memory, self.guide, self.boosting, self.neighbourhoods
        )
        for fault in changed_circumstances(before, self.around):
            self.display.say(f"warning: {fault}")

    def run(self) -> str:
        """Train to the end or to a signal. Returns "finished" or "stopped"; raises what went wrong."""
        self.model.train()
        started_at = self.position.step
        with StopRequest() as stop, self.display:
            history = self._open_history(started_at)
            try:
                outcome = self._loop(stop, history)
                if outcome == "stopped":
                    self._save()
                self._note(history, "stop", state=outcome, seconds=self.position.seconds)
                self._status(outcome)
                return outcome
            except Exception as error:
                self._note(history, "stop", state="failed", message=str(error))
                self._status("failed", message=str(error))
                raise
            finally:
                if history is not None:
                    history.close()

    def _open_history(self, started_at: int) -> HistoryWriter | None:
        if not self.first:
            return None
        path = self.folder / HISTORY
        begun = path.exists()  # perhaps killed before its first save: what it wrote after step 0 no longer counts
        history = HistoryWriter(path, resume_step=started_at if begun else None)
        if not begun:
            history.write("start", step=0, steps=self.steps, per_epoch=self.per_epoch)
        self._status("running")
        return history

    def _loop(self, stop: StopRequest, history: HistoryWriter | None) -> str:
        epochs = self.config.training.epochs
        while True:
            epochs_done = self.position.step // self.per_epoch
            if self.position.step % self.per_epoch == 0 and self.position.evaluated < epochs_done:
                try:
                    self._end_epoch(stop, history)
                except StopRequestedError:
                    return "stopped"
            if self.position.step >= self.steps or self._out_of_patience():
                return "finished"
            end = min((epochs_done + 1) * self.per_epoch, epochs * self.per_epoch)
            for batch in self.prepared.batches.stream(self.position.step, end):
                self._step(batch, history)
                if parallel.agree(stop.signal != 0, self.device):
                    return "stopped"
            self._save()

    def _step(self, batch: Batch, history: HistoryWriter | None) -> None:
        started = time.monotonic()
        step, training = self.position.step, self.config.training
        batch = batch.to(self.device)
        set_rate(self.optimizer, learning_rate(step, self.steps, training))
        seed_step(training.seed, step, parallel.rank())
        if self.neighbourhoods is not None and step % self.per_epoch == 0:
            self.neighbourhoods.begin_epoch(step // self.per_epoch)
        losses = compute_losses(
            self._embed, self.model, self.memory, batch, self.config, epoch=step / self.per_epoch,
            autocast=autocast(self.device, training.precision), guide=self.guide, boosting=self.boosting,
            neighbourhoods=self.neighbourhoods,
        )  # fmt: skip
        check_losses(losses, batch, step)
        self.optimizer.zero_grad(set_to_none=True)
        losses.total.backward()
        norm = self._clip(self.parameters, batch)
        for branch in self.beside:  # each by its own norm, so that no branch slows another
            parallel.average_gradients(branch.values())
            self._clip(branch, batch)
        self.optimizer.step()
        if self.memory is not None:
            self.memory.remember()
        if self.guide is not None:
            self.guide.remember()
        if self.boosting is not None:
            self.boosting.follow(self.model, step)
        if self.neighbourhoods is not None:
            self.neighbourhoods.remember()
        self.position.step += 1
        self.position.seconds += time.monotonic() - started
        self.position.loss_sum += float(parallel.mean(losses.total))
        if self.position.step % STEPS_BETWEEN_LINES == 0 or self.position.step % self.per_epoch == 0:
            self._report(losses, norm, time.monotonic() - started, history)
        if self.first and time.monotonic() - self._saved_at > training.save_every:
            self._save()

    def _clip(self, parameters: dict[str, torch.nn.Parameter], batch: Batch) -> Tensor:
        """Shorten one branch's gradient to its largest norm. Returns the norm it had."""
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters.values() if p.grad is not None])
        check_gradients(parameters, norm, batch, self.position.step)  # before clipping, which would spread one NaN
        torch.nn.utils.clip_grads_with_norm_(parameters.values(), self.config.training.clip_norm, norm)
        return norm

    def _report(self, losses: Losses, norm: Tensor, seconds: float, history: HistoryWriter | None) -> None:
        parts = {name: float(parallel.mean(value)) for name, value in losses.parts.items()}
        quartiles = None
        if losses.diversity is not None:
            points = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], device=losses.diversity.device)
            quartiles = [round(value, 5) for value in losses.diversity.quantile(points).tolist()]
        rate = self.config.training.batch_size / max(seconds, 1e-9)
        fields: dict[str, Any] = {"losses": parts, "gradient_norm": float(norm), "pairs_per_second": round(rate, 1)}
        if quartiles:
            fields["diversity"] = dict(zip(("min", "q1", "median", "q3", "max"), quartiles, strict=True))
        if self.memory is not None:
            fields["bank_filled"] = self.memory.bank.count
        prototypes = self.guide.report(whole_pass=False) if self.guide is not None else {}
        if prototypes:
            fields["prototypes"] = prototypes
        rate_now = self.optimizer.param_groups[0]["lr"]
        self._note(history, "step", epoch=self.position.step / self.per_epoch, learning_rate=rate_now, **fields)
        self._status("running")
        self.display.step(
            self.position.step, rate=rate, parts=parts, quartiles=quartiles[1:4] if quartiles else None,
            best=self.position.best, prototypes=prototypes,
        )  # fmt: skip

    def _end_epoch(self, stop: StopRequest, history: HistoryWriter | None) -> None:
        """Evaluate on dev, keep the best, record. The state of the epoch's last step is already saved."""
        epoch, position = self.position.step // self.per_epoch, self.position
        due = epoch % self.config.training.evaluate_every == 0 or position.step >= self.steps
        metrics = self._evaluate(stop) if due else None
        prototypes = self._end_pass_of_prototypes(epoch, stop)
        # The first process decides, so that all agree on patience whatever their last bits.
        score = parallel.from_first(metrics["rsum"], self.device) if metrics is not None else None
        is_best = due and (score is None or position.best is None or score > position.best)
        if is_best:
            position.best, position.best_step, position.without_gain = score, position.step, 0
        elif due:
            position.without_gain += 1
        position.evaluated = epoch
        loss, position.loss_sum = position.loss_sum / self.per_epoch, 0.0
        if is_best and self.first:
            about = {"step": position.step, "epoch": epoch, "metrics": metrics}
            tensors = {"model": self.model.state_dict()}
            if self.guide is not None and self.guide.clusters.ready:
                tensors[PROTOTYPES] = self.guide.export()
            self.best.write(str(position.step), tensors, {"metrics": about})
        fields: dict[str, Any] = {"metrics": metrics} if metrics is not None else {}
        if prototypes:
            fields["prototypes"] = prototypes
        # Before the save: a kill between the two repeats the line, which then counts once.
        self._note(history, "epoch", epoch=epoch, loss=loss, seconds=round(position.seconds, 2), best=is_best, **fields)
        self._save()
        self.display.epoch(epoch, metrics, position.seconds, loss, bool(is_best), prototypes)
        parallel.wait()

    def _end_pass_of_prototypes(self, epoch: int, stop: StopRequest) -> dict[str, Any]:
        """What the pass came to, and a full clustering when it is due. The first process clusters for all."""
        if self.guide is None:
            return {}
        found, every = self.guide.report(whole_pass=True), self.config.memory.prototype_recluster
        if not (every and epoch % every == 0 and self.guide.clusters.ready and self.position.step < self.steps):
            return found
        if self.first:
            train = self.prepared.train
            embedded = encode_split(
                self.model, train, self.prepared.batches.tokens, device=self.device,
                precision=self.config.training.precision, progress=self._watch(stop, "clustering"),
            )  # fmt: skip
            kept = self.guide.recluster(
                embedded.images, embedded.texts, train.image_of_text, seed=self.config.training.seed
            )
            if found:  # after the first pass there were no labels to keep
                found["kept"] = kept
        parallel.from_first_tensors(self.guide.clusters.buffers())
        return found

    def _watch(self, stop: StopRequest, what: str) -> Callable[[int, int], None]:
        tell = self.display.scoring(f"{self.folder.name}, {what}")

        def watch(done: int, total: int) -> None:
            tell(done, total)
            if stop.signal and parallel.world_size() == 1:
                raise StopRequestedError

        return watch

    def _evaluate(self, stop: StopRequest) -> dict[str, float] | None:
        dev, tokens = self.prepared.dev, self.prepared.dev_tokens
        if dev is None or tokens is None:
            return None

        sources, _ = scored_split(
            self.model, dev, tokens, beta=self.config.model.beta, device=self.device,
            precision=self.config.training.precision, progress=self._watch(stop, "evaluating dev"),
        )  # fmt: skip
        return ensemble_metrics(sources, dev.image_of_text)

    def _out_of_patience(self) -> bool:
        return 0 < self.config.training.patience <= self.position.without_gain

    def _save(self) -> None:
        if self.first:
            tensors, documents = capture(
                self.model, self.optimizer, self.memory, self.position, self.around, self.guide, self.boosting,
                self.neighbourhoods,
            )  # fmt: skip
            check_state(tensors, self.position.step)
            self.states.write(str(self.position.step), tensors, documents)
        self._saved_at = time.monotonic()

    def _note(self, history: HistoryWriter | None, event: str, **fields: Any) -> None:
        if history is not None:
            history.write(event, step=self.position.step, **fields)

    def _status(self, state: str, **fields: Any) -> None:
        if self.first:
            position = {key: value for key, value in asdict(self.position).items() if key != "loss_sum"}
            peak = round(peak_mebibytes(self.device), 1)
            write_status(self.folder, state, steps=self.steps, peak_mebibytes=peak, **position, **fields)
