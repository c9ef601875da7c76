"""coder-lab look: from pictures or vectors to the answer in the browser, in one command.

coder-lab look PICTURES --model NAME_OR_FOLDER
coder-lab look I.npy T.npy --captions C.txt
coder-lab look TABLE.parquet
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import tyro
from rich.console import Console

from coder_core import embed
from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import open_console, say
from coder_core.console.runner import asks_for_help, command
from coder_core.serve import ServerArguments, check_server, serve

PROGRAM = "coder-lab look"
FOR_EXAMPLE = "google/siglip2-base-patch16-256"
DUAL_ENCODERS = ("clip", "siglip", "siglip2", "chinese_clip", "align", "altclip")
EVERYTHING = ("--dev-share", "1", "--test-share", "0")
DEMO = "demo"  # names the built-in data
WIDTH = 7  # of the step names: check, model, embed, open
LONGEST_NAME = 60


@dataclass(frozen=True)
class LookArguments:
    """Check your data, embed it with a pretrained model, and open the app at the answer.

    SOURCES is one folder or file of pictures with captions (any layout of docs/data.md), or demo; or two files of embeddings,
    images then captions, with --captions; or one Parquet table with embeddings. Pictures are embedded on dev, or all
    of them if the data has no splits. To continue an interrupted command, repeat it. Nothing is downloaded.
    """

    sources: tyro.conf.Positional[tuple[Path, ...]]
    """Pictures with captions, demo for the built-in ones, or embeddings."""
    model: str = ""
    """Folder of a transformers model (CLIP, SigLIP, SigLIP 2), or the name of a downloaded one; empty: the only one on
    this machine."""
    captions: Path | None = None
    """Captions of the embeddings, one per line."""
    pictures: Path | None = None
    """Folder of the picture files, if it is not beside the captions."""
    name: str = ""
    """Name of the run; empty: made of the names of the data and of the model."""
    split: str = ""
    """Split of the pictures to embed; empty: dev, or all if there are no splits."""
    skip_broken: bool = False
    """Leave out pictures that are missing or broken, with their captions."""
    serve: bool = True
    """Serve the app at the end; --no-serve only writes the run, for another machine or a running app."""
    server: Annotated[ServerArguments, tyro.conf.arg(name="")] = field(default_factory=ServerArguments)


@command
def main(arguments: list[str]) -> int:
    """Check, embed and open. The exit status is that of the step that failed."""
    words = ["--help"] if not arguments or asks_for_help(arguments) else arguments
    parsed = tyro.cli(LookArguments, prog=PROGRAM, args=words)
    if parsed.serve:
        check_server(parsed.server)
    console = open_console()

    if _are_vectors(parsed):
        name = parsed.name or _run_name(parsed.sources[0].stem)
        split = parsed.split or "dev"
        status = _import_vectors(parsed, name, split, console)
    else:
        name, split, status = _embed_pictures(parsed, console)
    if status:
        return status

    page = f"overview?{urlencode({'run': name, 'split': split})}"
    if not parsed.serve:
        _step(console, "open", f"coder-lab app --root {parsed.server.root}, then /{page}")
        return 0

    _step(console, "open", "the app opens at the answer")
    serve(parsed.server, page)
    return 0


def _step(console: Console, name: str, text: str) -> None:
    say(console, f"{name:<{WIDTH}} {text}")


def _are_vectors(parsed: LookArguments) -> bool:
    """True for embeddings: two files, or a Parquet table with columns of vectors. InputError: the files do not fit."""
    sources = parsed.sources
    if len(sources) == 2:
        if parsed.captions is None:
            fix = f"add --captions FILE, one caption per line in the order of {sources[1]}"
            raise InputError.at("--captions", "is missing beside two files of embeddings", fix=fix)
        return True
    if len(sources) > 2:
        expected = "one folder of pictures, or two files of embeddings"
        raise InputError.at("SOURCES", f"names {len(sources)} files", expected)
    if str(sources[0]) == DEMO:
        return False
    if not sources[0].exists():
        expected = f"pictures with captions, embeddings, or {DEMO} for the built-in pictures"
        raise InputError.at(sources[0], "does not exist", expected)
    if sources[0].is_file() and sources[0].suffix.lower() == ".parquet":
        from coder_core.embedding.look_sources import has_vectors

        return has_vectors(sources[0])
    return False


def _import_vectors(parsed: LookArguments, name: str, split: str, console: Console) -> int:
    inputs = [*parsed.sources, *([parsed.captions] if parsed.captions else [])]
    _step(console, "check", f"embeddings: {', '.join(map(str, inputs))}")
    done = _finished(parsed.server.root, name, split)
    if done is not None:
        newer = [file for file in inputs if file.stat().st_mtime > done.stat().st_mtime]
        if newer:
            fix = f"give another --name, or remove {done.parents[2]}"
            raise InputError.at(newer[0], f"changed after it was imported as {name}", fix=fix)
        _step(console, "embed", f"already imported: {done.parents[2]}")
        return 0

    _step(console, "embed", f"importing as {parsed.server.root / name}")
    if len(inputs) == 1:
        words = [str(inputs[0])]
    else:
        images, texts, captions = map(str, inputs)
        words = ["--images", images, "--texts", texts, "--captions", captions]
    if parsed.pictures is not None:
        words += ["--pictures", str(parsed.pictures)]
    place = ["--name", name, "--split", split, "--root", str(parsed.server.root)]
    return embed.main(["import", *words, *place])


def _embed_pictures(parsed: LookArguments, console: Console) -> tuple[str, str, int]:
    """Embed a split of pictures; return the names of run and split, and the exit status."""
    from coder_core.embedding.look_sources import check_same_source, choose_split, read_pictures_or_all

    source = parsed.sources[0]
    data, is_whole = read_pictures_or_all(
        source, parsed.split, parsed.pictures, skip_broken=parsed.skip_broken
    )
    split = choose_split(data, parsed.split)
    part = ", all of the data" if is_whole else f": {split.name}"
    counts = f"{len(split.image_names):,} pictures, {len(split.captions):,} captions"
    _step(console, "check", f"{counts} ({data.layout}){part}")
    stop_on_errors(data.faults)

    model = parsed.model or _only_model()
    _step(console, "model", model)
    name = parsed.name or _run_name(f"{source.resolve().stem}-{Path(model).name}")
    done = _finished(parsed.server.root, name, split.name)
    if done is not None:
        check_same_source(done, split, model)
        _step(console, "embed", f"already embedded: {done.parents[2]}")
        return name, split.name, 0

    _step(console, "embed", f"writing {parsed.server.root / name}; if interrupted, repeat this command")
    words = ["pictures", str(source), "--model", model, "--name", name, "--split", split.name]
    if is_whole:
        words += EVERYTHING
    words += ["--root", str(parsed.server.root)]
    if parsed.pictures is not None:
        words += ["--pictures", str(parsed.pictures)]
    if parsed.skip_broken:
        words.append("--skip-broken")
    return name, split.name, embed.main(words)


def _only_model() -> str:
    """Return the only dual encoder among the downloaded models. InputError: there is none, or there are several."""
    models = downloaded_models()
    if len(models) == 1:
        return models[0]
    if models:
        fix = f"for example --model {models[0]}"
        raise InputError.at("--model", "is missing", f"one of {', '.join(models)}", fix)
    patterns = '--include "*.safetensors" --include "*.json" --include "*.txt" --include "*.model"'
    fix = f"hf download {FOR_EXAMPLE} {patterns} fetches one; then repeat this command with --model {FOR_EXAMPLE}"
    raise InputError.at("--model", "is missing, and this machine has no downloaded CLIP or SigLIP", fix=fix)


def downloaded_models() -> list[str]:
    """List the dual encoders in the cache of Hugging Face, by name."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return []
    found = set()
    for repository in repositories:
        for revision in repository.revisions:
            names = {file.file_name: file.file_path for file in revision.files}
            weights = any(name.endswith(".safetensors") for name in names)
            if repository.repo_type == "model" and weights and "config.json" in names:
                settings = json.loads(Path(names["config.json"]).read_text("utf-8"))
                if settings.get("model_type") in DUAL_ENCODERS:
                    found.add(repository.repo_id)
    return sorted(found)


def _run_name(text: str) -> str:
    """Turn names of data and model into the name of a run.

    >>> _run_name("My pictures-clip-vit-base-patch32")
    'my-pictures-clip-vit-base-patch32'
    """
    letters = re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-._")
    return letters[:LONGEST_NAME].rstrip("-._") or "pictures"


def _finished(root: Path, name: str, split: str) -> Path | None:
    """Return the manifest of a finished analysis; None without one."""
    manifest = root / name / "analysis" / split / "manifest.json"
    return manifest if manifest.is_file() else None


if __name__ == "__main__":
    raise SystemExit(main())
