"""Golden transcripts of scheduling: what is fed and emitted, step by step.

``data/transcripts/*.txt`` are scripts with their outcome. A line that starts with ``>`` is a
command, the lines after it are what happened:

    > decoder [blocks=N] [rows=N] [step_tokens=N] [reproducible=1]
    > submit NAME [prompt=N] [max_tokens=N] [choice=a|b|...] [says=TEXT]
    > cancel NAME
    > step [N]

Rewrite them with ``REWRITE_TRANSCRIPTS=1 pytest tests/service/engine/test_transcripts.py`` and
read the diff: commit only what you understand.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.engine.types import Chunk
from tests import fakes
from tests.service.engine.decoding import make_decoder, make_request

FOLDER = Path(__file__).resolve().parents[2] / "data" / "transcripts"


class Player:
    """Runs commands; each gives the lines that follow it."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.model = fakes.FakeModel(self._script)
        self.decoder = make_decoder(self.model)

    def _script(self, history):
        return fakes.replies(self.answers)(history)

    def play(self, line: str) -> list[str]:
        command, *words = line.removeprefix("> ").split()
        names = [w for w in words if "=" not in w]
        options = dict(w.split("=", 1) for w in words if "=" in w)
        lines: list[str] = getattr(self, command)(*names, **options)
        return lines

    def decoder_(self, **options: str) -> list[str]:
        numbers = {key: int(value) for key, value in options.items()}
        self.decoder = make_decoder(
            self.model,
            num_blocks=numbers.get("blocks", 64),
            max_rows=numbers.get("rows", 4),
            step_tokens=numbers.get("step_tokens", 64),
            reproducible=bool(numbers.get("reproducible")),
        )
        return []

    def submit(self, name: str, **options: str) -> list[str]:
        length = int(options.get("prompt", len(name) + 1))
        prompt = name.ljust(length - 1, ".") + ">"
        self.answers[prompt] = options.get("says", "hello")
        fields = {"max_tokens": int(options["max_tokens"])} if "max_tokens" in options else {}
        choice = options.get("choice")
        grammar = fakes.FakeGrammar(c.encode() for c in choice.split("|")) if choice else None
        self.decoder.submit(make_request(name, prompt, **fields), grammar)
        return []

    def cancel(self, name: str) -> list[str]:
        self.decoder.cancel(name)
        return []

    def step(self, times: str = "1") -> list[str]:
        lines = []
        for _ in range(int(times)):
            self.model.fed.clear()
            chunks = self.decoder.step()
            for step in self.model.fed:
                rows = " ".join(
                    f"row{r.kv_row}@{r.position}+{len(r.token_ids)}{'*' * r.num_logits}"
                    for r in step
                )
                lines.append(f"  fed {rows}")
            lines += [f"  {self._shown(c)}" for c in chunks] or ["  nothing to say"]
        kv = self.decoder._kv
        scheduler = self.decoder._scheduler
        lines.append(
            f"  -- {len(scheduler.running)} running, {len(scheduler.waiting)} waiting, "
            f"{kv.num_free_blocks} blocks free"
        )
        return lines

    def _shown(self, chunk: Chunk) -> str:
        marks = "".join("f" if t.forced else "." for t in chunk.tokens)
        text = f"{chunk.request_id}: {chunk.text!r} [{marks}]"
        if not chunk.finish:
            return text
        f = chunk.finish
        details = {
            key: value for key in f.detail.__struct_fields__ if (value := getattr(f.detail, key))
        }
        error = f" {f.error.reason}" if f.error else ""
        return f"{text} {f.reason.name}{error} complete={f.complete} {details or ''}".rstrip()


def play(script: str) -> str:
    player = Player()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("  "):
            continue  # an outcome
        lines.append(line)
        if line.startswith("> "):
            lines += player.play(line.replace("> decoder", "> decoder_"))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_happens_as_written(path):
    script = path.read_text()
    outcome = play(script)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(outcome)
    assert outcome == script


def test_there_are_transcripts():
    assert list(FOLDER.glob("*.txt"))
