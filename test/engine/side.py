#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A vLLM engine in a process of its own, driven by lines of JSON.

    side.py MODEL FD

Reads {"engine": arguments of vllm.LLM} and then {"prompts", "transfer", "tokens"} from its
standard input. Answers go to the descriptor FD as lines, as vLLM writes to the other ones.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
from vllm import LLM, SamplingParams


class Done:
    """An event of a device that computes before it returns, as the CPU does."""

    def record(self, _stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


def stand_in_for_events() -> None:
    """For connectors that name torch.cuda, which PyTorch refuses without a GPU."""
    torch.cuda.current_stream = lambda *_device: None
    torch.cuda.Event = Done


def generate(llm: Any, order: dict[str, Any]) -> dict[str, Any]:
    tokens = order["tokens"]
    params = [
        SamplingParams(
            temperature=0,
            max_tokens=tokens,
            min_tokens=tokens,
            ignore_eos=True,
            detokenize=False,
            extra_args={"kv_transfer_params": transfer} if transfer else None,
        )
        for transfer in order["transfer"]
    ]
    inputs = [{"prompt_token_ids": prompt} for prompt in order["prompts"]]
    outputs = llm.generate(inputs, params, use_tqdm=False)
    return {
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
        "reasons": [output.outputs[0].finish_reason for output in outputs],
        "transfer": [output.kv_transfer_params for output in outputs],
    }


def main(model: str, descriptor: int) -> None:
    with os.fdopen(descriptor, "w") as answers:
        config = json.loads(sys.stdin.readline())["engine"]
        if os.environ.get("CUDA_EVENTS") == "done":
            stand_in_for_events()
        llm = LLM(
            model=model,
            skip_tokenizer_init=True,
            enforce_eager=True,
            dtype="float32",
            block_size=32,
            max_model_len=4352,
            max_num_batched_tokens=2048,
            disable_log_stats=True,
            **config,
        )
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for line in sys.stdin:
            answer = generate(llm, json.loads(line))
            print(json.dumps(answer), file=answers, flush=True)
    # NIXL's wheel has a libnl that crashes in its exit handlers, over tcp alone as well
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
