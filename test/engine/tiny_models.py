# SPDX-License-Identifier: Apache-2.0
"""Small models with random weights of other kinds than tiny_llama's, and an adapter for that one.

Their weights are as large as that one's: what they answer depends on all of the prompt.
"""

import json
import os

import torch
from safetensors.torch import save_file

from tiny_llama import VOCABULARY


class Weights:
    def __init__(self, seed, spread):
        self.random, self.spread, self.all = torch.Generator().manual_seed(seed), spread, {}

    def add(self, name, *shape, factor=1.0):
        w = torch.randn(shape, generator=self.random) * self.spread * factor
        self.all[name] = w.to(torch.bfloat16)

    def ones(self, name, n):
        self.all[name] = torch.ones(n, dtype=torch.bfloat16)

    def save(self, folder, config):
        os.makedirs(folder, exist_ok=True)
        config = {'vocab_size': VOCABULARY, 'max_position_embeddings': 32768, 'rms_norm_eps': 1e-5,
                  'torch_dtype': 'bfloat16', 'tie_word_embeddings': False, 'bos_token_id': None,
                  'eos_token_id': VOCABULARY - 1, **config}
        with open(os.path.join(folder, 'config.json'), 'w', encoding='ascii') as f:
            json.dump(config, f)
        save_file(self.all, os.path.join(folder, 'model.safetensors'), metadata={'format': 'pt'})


def gemma(folder, seed=0, layers=4, hidden=256, window=128):
    """Layers with a sliding window among such without one, as in Gemma 3."""
    heads, kv, inner = hidden // 64, hidden // 128, 2 * hidden
    w = Weights(seed, 0.12)
    w.add('model.embed_tokens.weight', VOCABULARY, hidden)
    w.ones('model.norm.weight', hidden)
    for i in range(layers):
        at = f'model.layers.{i}.'
        for name in ('input', 'post_attention', 'pre_feedforward', 'post_feedforward'):
            w.ones(f'{at}{name}_layernorm.weight', hidden)
        for name, rows in (('q', 64 * heads), ('k', 64 * kv), ('v', 64 * kv)):
            w.add(f'{at}self_attn.{name}_proj.weight', rows, hidden)
        w.add(f'{at}self_attn.o_proj.weight', hidden, 64 * heads)
        for name in ('q', 'k'):
            w.ones(f'{at}self_attn.{name}_norm.weight', 64)
        for name in ('gate', 'up'):
            w.add(f'{at}mlp.{name}_proj.weight', inner, hidden)
        w.add(f'{at}mlp.down_proj.weight', hidden, inner)
    kinds = ['full_attention' if i % 2 else 'sliding_attention' for i in range(layers)]
    w.save(folder, {
        'architectures': ['Gemma3ForCausalLM'], 'model_type': 'gemma3_text', 'hidden_size': hidden,
        'intermediate_size': inner, 'num_hidden_layers': layers, 'num_attention_heads': heads,
        'num_key_value_heads': kv, 'head_dim': 64, 'query_pre_attn_scalar': 64,
        'sliding_window': window, 'layer_types': kinds, 'rope_theta': 10000.0,
        'rope_local_base_freq': 10000.0, 'hidden_activation': 'gelu_pytorch_tanh',
        'tie_word_embeddings': True})


def adapter(folder, seed, layers=3, hidden=256, rank=8):
    """LoRA for a tiny_llama."""
    w = Weights(seed, 0.3)
    for i in range(layers):
        at = f'base_model.model.model.layers.{i}.self_attn.'
        for name, rows in (('q', hidden), ('v', hidden // 2)):
            w.add(f'{at}{name}_proj.lora_A.weight', rank, hidden)
            w.add(f'{at}{name}_proj.lora_B.weight', rows, rank)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'adapter_config.json'), 'w', encoding='ascii') as f:
        json.dump({'peft_type': 'LORA', 'r': rank, 'lora_alpha': 16, 'lora_dropout': 0.0,
                   'bias': 'none', 'task_type': 'CAUSAL_LM',
                   'target_modules': ['q_proj', 'v_proj']}, f)
    save_file(w.all, os.path.join(folder, 'adapter_model.safetensors'), metadata={'format': 'pt'})
