"""The fixed text space of a sentence-embedding model: its last layer, averaged over a caption's word pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent
from coder_core.geometry.text_space import unit_rows
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.folders import check_model_folder
from coder_core.model.towers.pretrained import load_pretrained

SENTENCES_AT_ONCE = 64


@dataclass(frozen=True)
class SentenceSpace:
    """A `TextSpace` by a model, which is loaded only to encode captions."""

    folder: Path  # written by save_pretrained: config.json, a tokenizer and safetensors

    @property
    def name(self) -> str:
        """Name for display."""
        return f"sentence embeddings of {self.folder.name}"

    def encode(self, captions: Sequence[str], progress: Progress = silent) -> np.ndarray:
        """Encode m captions as (m, S) float32 unit rows. InputError: transformers cannot load the folder."""
        where = f"--text-space {self.folder}"
        choice = ModelChoice(str(self.folder), source=where)
        loaded = load_pretrained(choice, pictures=False, unread="pooler.")
        model = loaded.model
        tokeniser = loaded.tokeniser
        options = {"padding": True, "truncation": True, "max_length": tokeniser.longest}
        order = np.argsort([len(caption) for caption in captions], kind="stable")
        means = []
        with torch.inference_mode():
            for start in range(0, len(order), SENTENCES_AT_ONCE):
                rows = order[start : start + SENTENCES_AT_ONCE]
                pieces = tokeniser.tokenizer([captions[row] for row in rows], return_tensors="pt", **options)
                tokeniser.check(int(pieces["input_ids"].max()))
                states = model(**pieces).last_hidden_state.float()
                mask = pieces["attention_mask"].unsqueeze(-1)
                means.append(((states * mask).sum(1) / mask.sum(1).clamp_min(1)).numpy())
                progress(start + len(rows), len(captions))

        return unit_rows(np.concatenate(means)[np.argsort(order)])

    def to_files(self) -> dict[str, bytes | str]:
        """Return no files: the configuration names the folder."""
        return {}


def sentence_space(folder: str) -> SentenceSpace:
    """Return the text space of a model's folder. InputError: it is not a folder of a model in safetensors that
    transformers can load."""
    path = Path(folder)
    if not path.is_dir():
        expected = "a folder of save_pretrained: config.json, tokenizer and safetensors"
        raise InputError.at(
            f"--text-space {folder}", "is not a folder", expected, "or leave it out for TF-IDF"
        )
    check_model_folder(path, pictures=False)
    return SentenceSpace(path)
