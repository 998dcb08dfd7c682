#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small Llama with random weights, so that a real engine runs without a download.

usage: tiny_llama.py FOLDER [SEED [LAYERS HIDDEN]]

Its weights are large enough that what it answers depends on all of the prompt: one wrong block of
its KV cache shows in the tokens. No tokenizer: prompts are token numbers, 0 to 999.
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file

VOCABULARY = 1000


def make(folder, seed=0, layers=3, hidden=256, spread=0.12):
    os.makedirs(folder, exist_ok=True)
    heads, kv, inner = hidden // 64, max(1, hidden // 128), 2 * hidden
    config = {
        'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': hidden,
        'intermediate_size': inner, 'num_hidden_layers': layers, 'num_attention_heads': heads,
        'num_key_value_heads': kv, 'head_dim': 64, 'vocab_size': VOCABULARY,
        'max_position_embeddings': 32768, 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0,
        'hidden_act': 'silu', 'torch_dtype': 'bfloat16', 'tie_word_embeddings': False,
        'bos_token_id': None, 'eos_token_id': VOCABULARY - 1,
    }
    with open(os.path.join(folder, 'config.json'), 'w', encoding='ascii') as f:
        json.dump(config, f)
    random = torch.Generator().manual_seed(seed)

    def w(*shape):
        return (torch.randn(shape, generator=random) * spread).to(torch.bfloat16)

    weights = {'model.embed_tokens.weight': w(VOCABULARY, hidden) * 8,
               'model.norm.weight': torch.ones(hidden, dtype=torch.bfloat16),
               'lm_head.weight': w(VOCABULARY, hidden)}
    for i in range(layers):
        at = f'model.layers.{i}.'
        weights[at + 'input_layernorm.weight'] = torch.ones(hidden, dtype=torch.bfloat16)
        weights[at + 'post_attention_layernorm.weight'] = torch.ones(hidden, dtype=torch.bfloat16)
        for name, rows in (('q', 64 * heads), ('k', 64 * kv), ('v', 64 * kv)):
            weights[at + f'self_attn.{name}_proj.weight'] = w(rows, hidden)
        weights[at + 'self_attn.o_proj.weight'] = w(hidden, 64 * heads)
        weights[at + 'mlp.gate_proj.weight'] = w(inner, hidden)
        weights[at + 'mlp.up_proj.weight'] = w(inner, hidden)
        weights[at + 'mlp.down_proj.weight'] = w(hidden, inner)
    save_file(weights, os.path.join(folder, 'model.safetensors'), metadata={'format': 'pt'})


if __name__ == '__main__':
    make(sys.argv[1], *(int(x) for x in sys.argv[2:5]))
