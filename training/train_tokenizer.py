"""Train the byte-level BPE tokenizer and encode the corpus as 16-bit token files.

Writes ``tokenizer.json`` and ``tokenizer_config.json``, and ``train.bin`` (shuffled
documents), ``heldout.bin`` and ``prose.bin``: little-endian uint16 token streams,
every document followed by ``<|endoftext|>`` (id 0).
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
VOCAB_SIZE = 4096
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}"
)


def read_texts(path: Path) -> list[str]:
    """Reads the texts of a .jsonl file."""
    with path.open() as lines:
        return [json.loads(line)["text"] for line in lines]


def train(texts: list[str]) -> Tokenizer:
    """Trains a GPT-2-style byte-level BPE tokenizer; id 0 is the document separator."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[AddedToken(END, special=True)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Saves the tokenizer in the Hugging Face layout."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "add_prefix_space": False,
        "bos_token": END,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "model_max_length": 2048,
        "pad_token": END,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def encoded(tokenizer: Tokenizer, texts: list[str], batch: int = 500) -> Iterator[np.ndarray]:
    """Yields the token arrays of the documents, each with its separator."""
    for start in range(0, len(texts), batch):
        for encoding in tokenizer.encode_batch(texts[start : start + batch]):
            yield np.array([*encoding.ids, 0], dtype="<u2")


def main() -> None:
    """Trains, saves and encodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder written by prepare_data.py")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tokenizer")
    parser.add_argument("--sample-chars", type=int, default=40_000_000)
    parser.add_argument("--reuse", action="store_true", help="only encode, with the tokenizer in --out")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    texts = read_texts(args.data / "train.jsonl")
    random.Random(args.seed).shuffle(texts)
    if args.reuse:
        tokenizer = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    else:
        share = args.sample_chars / sum(map(len, texts))
        tokenizer = train(texts[: max(1, int(share * len(texts)))])
        save(tokenizer, args.out)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    assert tokenizer.token_to_id(END) == 0
    for name, some in (
        ("heldout", read_texts(args.data / "heldout.jsonl")),
        ("prose", read_texts(args.data / "prose.jsonl")),
        ("train", texts),
    ):
        tokens = np.concatenate(list(encoded(tokenizer, some)))
        tokens.tofile(args.data / f"{name}.bin")
        print(
            f"{name}: {len(tokens)} tokens, {sum(map(len, some)) / len(tokens):.2f} characters a token",
            flush=True,
        )


if __name__ == "__main__":
    main()
