# SPDX-License-Identifier: Apache-2.0
"""pealkv.keys: the vectors that the C functions are held to as well, what is refused, and that
canonical bytes can be taken apart again to exactly the fields that made them."""

import dataclasses
import os
import random
import struct

import pytest

from pealkv import keys

VECTORS = os.path.join(os.path.dirname(__file__), 'key_vectors.txt')
LEAST = {'model': 'm', 'dtype': 'd', 'layout': 'l', 'hash': 'h', 'block_tokens': 1}
NUMBERS = ['block_tokens', 'tp_size', 'tp_rank', 'pp_size', 'pp_rank', 'cp_size', 'cp_rank',
           'group']
ORDER = ['model', 'revision', 'dtype', 'scale', 'layout', *NUMBERS, 'hash', 'seed', 'salt']


def unhex(text):
    return b'' if text == '-' else bytes.fromhex(text)


def vectors():
    with open(VECTORS, encoding='utf-8') as f:
        return [line.split() for line in f if not line.startswith('#')]


@pytest.mark.parametrize('c', vectors(), ids=lambda c: c[0])
def test_vectors(c):
    space = keys.Space(
        **{name: unhex(c[1 + i]).decode() for i, name in enumerate(ORDER[:5])},
        **{name: int(c[6 + i]) for i, name in enumerate(NUMBERS)},
        hash=unhex(c[14]).decode(), seed=unhex(c[15]), salt=unhex(c[16]))
    kind, engine_key = int(c[17]), unhex(c[18])
    assert space.canonical.hex() == c[19]
    assert space.digest.hex() == c[20]
    assert space.key(engine_key, kind).hex() == c[21]
    assert [part.hex() for part in space.name(engine_key, kind)] == c[21:23]


def take_apart(canonical):
    """By doc/keys.md alone."""
    assert canonical[:8] == b'pealkey\x01'
    at, found = 8, {}
    for number, name in enumerate(ORDER, 1):
        got, n = struct.unpack_from('<BI', canonical, at)
        assert got == number
        data = canonical[at + 5:at + 5 + n]
        assert len(data) == n
        at += 5 + n
        if name in NUMBERS:
            found[name], = struct.unpack('<I', data)
        else:
            found[name] = data if name in ('seed', 'salt') else data.decode()
    assert at == len(canonical)
    return found


def draw(rng):
    """Out of few letters that look like heads of fields, so that neighbours are easily mixed up."""
    def text(least):
        return ''.join(rng.choices('\1\2\3\4\5\6aé', k=rng.randint(least, 5)))

    fields = {name: text(1) for name in ('model', 'dtype', 'layout', 'hash')}
    fields |= {name: text(0) for name in ('revision', 'scale')}
    fields |= {name: rng.randbytes(rng.randint(0, 5)) for name in ('seed', 'salt')}
    for p in ('tp', 'pp', 'cp'):
        fields[p + '_size'] = rng.choice([1, 2, 8, 1 << 31])
        fields[p + '_rank'] = rng.randrange(fields[p + '_size'])
    return fields | {'block_tokens': rng.randint(1, 300), 'group': rng.randint(0, 3)}


def test_unique():
    seed = int(os.environ.get('PEAL_SEED', random.randrange(1 << 32)))
    print('seed', seed)
    rng = random.Random(seed)
    for _ in range(5000):
        fields = draw(rng)
        assert take_apart(keys.Space(**fields).canonical) == fields


def test_each_field_counts():
    space = keys.Space(**LEAST, tp_size=4, pp_size=4, cp_size=4)
    seen = {space.digest}
    for name in ORDER:
        was = getattr(space, name)
        other = was + 1 if name in NUMBERS else was + (b'x' if isinstance(was, bytes) else 'x')
        seen.add(dataclasses.replace(space, **{name: other}).digest)
    assert len(seen) == 1 + len(ORDER)


@pytest.mark.parametrize('field, value, error', [
    ('model', '', ValueError), ('model', 'a\0b', ValueError), ('model', b'm', TypeError),
    ('model', '\udc80', ValueError), ('dtype', '', ValueError), ('layout', '', ValueError),
    ('hash', '', ValueError), ('revision', 'x' * 4097, ValueError), ('revision', None, TypeError),
    ('salt', b'x' * 4097, ValueError), ('seed', 'text', TypeError), ('block_tokens', 0, ValueError),
    ('block_tokens', 1.0, TypeError), ('tp_size', 0, ValueError), ('tp_rank', 1, ValueError),
    ('pp_rank', -1, ValueError), ('cp_size', 1 << 32, ValueError), ('group', True, TypeError),
])
def test_refused(field, value, error):
    with pytest.raises(error) as e:
        keys.Space(**{**LEAST, field: value})
    assert field in str(e.value) or 'surrogate' in str(e.value)


def test_names():
    space = keys.Space(**LEAST)
    assert len(space.key(b'k')) == 16
    assert space.key(b'k') != space.key(b'k', keys.Type.STATE) != space.key(b'k', 200)
    assert space.key(memoryview(b'k')) == space.key(bytearray(b'k')) == space.name(b'k')[0]
    # The tag tells more than the key: it isn't the key made longer.
    assert space.name(b'k')[1][:16] != space.name(b'k')[0]
    for key, kind in [(b'', 1), (bytes(4097), 1), (b'k', 0), (b'k', 256)]:
        with pytest.raises(ValueError):
            space.key(key, kind)
