"""Answer a stream of requests with the model's forward inside `with framehook.capture():`.

The model is a small text classifier of the kind that a service holds.  Requests come in batches of changing size, as
they do; the first few are answered eagerly or compile, the rest come from the cache.  At the end: what was hit, what
was compiled and why, and how long requests took.

    python examples/serve.py
    python examples/serve.py --requests 500 --backend eager
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import framehook

LABELS = ("question", "statement", "command")
SENTENCES = (
    "is the kettle on",
    "the kettle is on",
    "put the kettle on",
    "where does the road go",
    "the road goes over the hill and far away",
    "take the road over the hill",
)


class Classifier(nn.Module):
    """Bytes in, a label's scores out."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(LABELS))

    def forward(self, text: Tensor, mask: Tensor) -> Tensor:
        states = self.encoder(self.embedding(text), src_key_padding_mask=~mask)
        mean = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return self.head(mean).softmax(dim=-1)


@dataclass
class Answer:
    """A sentence's most likely label and how sure the model is."""

    label: str
    confidence: float


class Service:
    """Holds the model and one capture; answers batches of sentences."""

    LENGTH = 48

    def __init__(self, model: nn.Module, backend: str) -> None:
        self.model = model.eval()
        # One capture for the life of the service: what it compiled is used again each time it is entered.
        self.capture = framehook.capture(backend=backend)

    def encode(self, sentences: list[str]) -> tuple[Tensor, Tensor]:
        """Bytes, padded to one length, and where they are."""
        text = torch.zeros(len(sentences), self.LENGTH, dtype=torch.long)
        mask = torch.zeros(len(sentences), self.LENGTH, dtype=torch.bool)
        for row, sentence in enumerate(sentences):
            data = sentence.encode()[: self.LENGTH] or b" "
            text[row, : len(data)] = torch.tensor(list(data))
            mask[row, : len(data)] = True
        return text, mask

    @torch.no_grad()
    def answer(self, sentences: list[str]) -> list[Answer]:
        """Classify a batch of sentences."""
        text, mask = self.encode(sentences)
        with self.capture:
            scores = self.model(text, mask)
        return [Answer(LABELS[int(row.argmax())], float(row.max())) for row in scores]


def requests(count: int, seed: int) -> Iterator[list[str]]:
    """Batches of one to eight sentences."""
    chance = random.Random(seed)
    for _ in range(count):
        yield [chance.choice(SENTENCES) for _ in range(chance.choice((1, 2, 4, 8)))]


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    model = Classifier()
    service = Service(model, options.backend)
    seconds: list[float] = []
    largest = 0.0
    for number, sentences in enumerate(requests(options.requests, options.seed)):
        start = time.perf_counter()
        answers = service.answer(sentences)
        seconds.append(time.perf_counter() - start)
        with torch.no_grad():
            expected = model(*service.encode(sentences)).max(dim=-1).values
        got = torch.tensor([answer.confidence for answer in answers])
        largest = max(largest, float((got - expected).abs().max()))
        if number < 8 or number == options.requests - 1:
            shown = f"{sentences[0]!r} → {answers[0].label} ({answers[0].confidence:.0%})"
            print(f"request {number:>4}: {len(sentences)} sentences, {seconds[-1] * 1e3:8.2f} ms   {shown}")

    print()
    print(service.capture.stats())
    print()
    half = seconds[len(seconds) // 2 :]
    print(
        f"slowest request {max(seconds):.2f} s; median of the later half {statistics.median(half) * 1e3:.2f} ms"
    )
    print(f"largest difference to eager: {largest:.1e}")
    return 0 if largest < 1e-4 else 1


if __name__ == "__main__":
    raise SystemExit(main())
