#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tiny random models, and prompts for them.

    model.py FOLDER {full|windows|states}..      each in a folder of its name there

Of four layers, two of which may have sliding windows, or states of short convolutions. With the
small weights that random models have, tokens follow from the last one of the prompt alone and
equality proves nothing. These are wide enough that all of the prompt counts.
"""

from __future__ import annotations

import json
import random
import sys

VOCABULARY = 512
#: Size for a token: keys and values, heads, head, bytes of a number.
BYTES_A_LAYER = 2 * 2 * 32 * 4
#: Tokens of each prompt: from one block to more than one step of a chunked prefill.
LENGTHS = (64, 65, 96, 127, 128, 200, 255, 256, 333, 400, 512, 640, 777, 1000, 1024, 1500)
LENGTHS += (2000, 2500, 3000, 4000)


def make_model(folder: str, kind: str) -> None:
    import torch
    import transformers

    torch.manual_seed(5)
    name = "Lfm2" if kind == "states" else "Llama"
    others = {"windows": "sliding_attention", "states": "conv"}
    of_kind = {"sliding_window": 100} if kind == "windows" else {}
    if kind == "states":  # vLLM reads widths that the class has under another name
        of_kind = {"conv_dim": 128, "block_dim": 128}
    if kind in others:
        of_kind["layer_types"] = [others[kind], "full_attention"] * 2
    config = getattr(transformers, f"{name}Config")(
        **of_kind,
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        initializer_range=0.6 if kind == "states" else 0.35,
        torch_dtype="float32",
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    getattr(transformers, f"{name}ForCausalLM")(config).save_pretrained(folder)


def prompts() -> list[list[int]]:
    """Prompts with equal last tokens, so that they differ in cached tokens alone."""
    numbers = random.Random(11)
    return [[numbers.randrange(2, VOCABULARY) for _ in range(n - 1)] + [7] for n in LENGTHS]


def main(folder: str, kinds: list[str]) -> None:
    for kind in kinds:
        make_model(f"{folder}/{kind}", kind)
        layers = 4 if kind == "full" else 2  # whose cache is all of the prompt
        told = {"prompts": prompts(), "bytes_a_token": layers * BYTES_A_LAYER}
        with open(f"{folder}/{kind}/prompts.json", "w", encoding="ascii") as to:
            json.dump(told, to)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
