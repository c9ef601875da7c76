"""The fixed text space of a sentence-embedding model: the mean over a caption's word pieces of its last layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent
from coder_core.geometry.text_space import unit_rows
from coder_core.model.towers.pretrained import Pretrained, check_folder, load_model

SENTENCES_AT_ONCE = 64


@dataclass(frozen=True)
class SentenceSpace:
    """A `TextSpace` of a model, which is loaded when captions are encoded."""

    folder: Path  # of save_pretrained, with config.json, a tokenizer and safetensors

    @property
    def name(self) -> str:
        """For people to read."""
        return f"sentence embeddings of {self.folder.name}"

    def encode(self, captions: Sequence[str], progress: Progress = silent) -> np.ndarray:
        """(m, S) float32 unit rows. InputError: transformers cannot load the folder."""
        where = f"--text-space {self.folder}"
        model = load_model(self.folder, where, unread="pooler.")
        tokeniser = Pretrained(self.folder, where, {}, {}, model).tokeniser
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
        """Nothing: the folder is named in the configuration."""
        return {}


def sentence_space(folder: str) -> SentenceSpace:
    """Check a model's folder. InputError: it is not the folder of a model that transformers can load from
    safetensors."""
    path = Path(folder)
    if not path.is_dir():
        expected = "a folder of save_pretrained: config.json, tokenizer and safetensors"
        fault = Fault(f"--text-space {folder}", "is not a folder", expected, "or leave it out for TF-IDF")
        raise InputError(fault)
    check_folder(path, pictures=False)
    return SentenceSpace(path)
