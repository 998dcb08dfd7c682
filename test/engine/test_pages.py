# SPDX-License-Identifier: Apache-2.0
"""Where a block's bytes lie, in the layouts that engines use; both ways to copy them agree."""

import random

import pytest
import torch

from pealkv.vllm import _pages

BLOCKS, TOKENS, HEADS, DIM, LAYERS = 9, 16, 2, 8, 3


def layers_apart(shape, order):
    """One allocation a layer; `order` is how its dimensions lie in memory."""
    back = [order.index(d) for d in range(len(order))]
    return [torch.empty([shape[d] for d in order], dtype=torch.bfloat16).permute(back)
            for _ in range(LAYERS)]


def layers_in_blocks():
    """Blocks outermost, the layers' pages behind one another in each."""
    page = 2 * TOKENS * HEADS * DIM
    raw = torch.empty(BLOCKS * LAYERS * page, dtype=torch.bfloat16)
    return [raw.as_strided((BLOCKS, HEADS, TOKENS, 2 * DIM),
                           (LAYERS * page, TOKENS * 2 * DIM, 2 * DIM, 1), i * page)
            for i in range(LAYERS)]


LAYOUTS = {
    'blocks, heads, tokens, kv': lambda: layers_apart((BLOCKS, HEADS, TOKENS, 2 * DIM),
                                                      (0, 1, 2, 3)),
    'blocks, tokens, heads, kv': lambda: layers_apart((BLOCKS, HEADS, TOKENS, 2 * DIM),
                                                      (0, 2, 1, 3)),
    'heads outside': lambda: layers_apart((BLOCKS, HEADS, TOKENS, 2 * DIM), (1, 0, 2, 3)),
    'keys and values apart': lambda: layers_apart((2, BLOCKS, TOKENS, HEADS, DIM),
                                                  (0, 1, 2, 3, 4)),
    'layers in blocks': layers_in_blocks,
    'smaller kernel blocks': lambda: layers_apart((2 * BLOCKS, HEADS, TOKENS // 2, 2 * DIM),
                                                  (0, 1, 2, 3)),
}
REGIONS = {'heads outside': LAYERS * HEADS, 'keys and values apart': LAYERS * 2,
           'layers in blocks': 1}


def fill(tensors, seed):
    random.seed(seed)
    for t in tensors:
        t.copy_(torch.tensor([random.random() for _ in range(t.numel())]).view(t.shape))


def block(tensor, i):
    """All of a block, in the tensor's own terms."""
    dim = 1 if tensor.dim() == 5 else 0
    parts = tensor.shape[dim] // BLOCKS
    return tensor.narrow(dim, i * parts, parts)


@pytest.mark.parametrize('name', LAYOUTS)
@pytest.mark.parametrize('make', [_pages.HostCopier, lambda r: _pages.TorchCopier(r, 3)])
def test_out_and_in(name, make):
    tensors = LAYOUTS[name]()
    fill(tensors, 1)
    regions = _pages.find(tensors, BLOCKS)
    assert len(regions) == REGIONS.get(name, LAYERS)
    per_block = sum(r.page for r in regions)
    assert per_block == sum(t.numel() * t.element_size() for t in tensors) // BLOCKS
    copier, value = make(regions), torch.empty(3 * per_block, dtype=torch.uint8)
    other = torch.empty_like(value)
    copier.gather([7, 0, 4], value, copier.fence())
    _pages.HostCopier(regions).gather([7, 0, 4], other, None)
    assert torch.equal(value, other)

    before = [t.clone() for t in tensors]
    copier.scatter(value, 3, 1, [2, 8], copier.fence())  # 0 and 4 into 2 and 8
    for t, old in zip(tensors, before):
        for i, want in enumerate([0, 1, 0, 3, 4, 5, 6, 7, 4]):
            assert torch.equal(block(t, i), block(old, want))


def test_shared_layers():
    """Layers that share their cache count once."""
    a, b = layers_apart((BLOCKS, HEADS, TOKENS, 2 * DIM), (0, 1, 2, 3))[:2]
    assert len(_pages.find([a, b, a], BLOCKS)) == 2


def test_no_pages():
    with pytest.raises(ValueError, match='no dimension of 9 blocks'):
        _pages.find([torch.empty(5, 4, 3)], BLOCKS)
    with pytest.raises(ValueError, match="isn't contiguous"):
        _pages.find([torch.empty(BLOCKS, 4, 8)[:, :, ::2]], BLOCKS)
    with pytest.raises(ValueError, match='without any'):
        _pages.find([], BLOCKS)


def test_layouts_differ():
    """Equal shapes in another order in memory are another layout; more blocks aren't."""
    def of(order, blocks=BLOCKS, dtype=torch.bfloat16):
        t = layers_apart((blocks, HEADS, TOKENS, 2 * DIM), order)
        tensors = {f'layer {i}': x.to(dtype) for i, x in enumerate(t)}
        return _pages.layout(tensors, _pages.find(tensors.values(), blocks), blocks, TOKENS)

    said = [of((0, 1, 2, 3)), of((0, 2, 1, 3)), of((1, 0, 2, 3)),
            of((0, 1, 2, 3), dtype=torch.float32)]
    assert len(set(said)) == len(said)
    assert of((0, 1, 2, 3), 2 * BLOCKS + 1) == said[0]
