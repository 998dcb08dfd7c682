# SPDX-License-Identifier: Apache-2.0
"""What an installed wheel has to do by itself: start the daemon that it carries, keep values, and
tell keys. Run by script/wheel with nothing of this tree in reach."""

import os
import shutil
import sys
import tempfile

import pealkv
from pealkv import keys


def main():
    folder = os.path.dirname(pealkv.__file__)
    assert 'site-packages' in folder, folder
    assert not shutil.which('peald') and not os.environ.get('PEALD')
    value = os.urandom(3_000_000)
    space = keys.Space(model='m', dtype='d', layout='l', hash='h', block_tokens=16)
    key, tag = space.name(b'block')
    with tempfile.TemporaryDirectory() as d:
        with pealkv.open(f'spawn:{d}/d?dram=64M&linger=1') as store:
            store.put(key, value, tag=tag)
            back = bytearray(len(value))
            assert store.get_into(key, back, want_tag=tag) == len(value)
            assert back == value
            names = [bytes([i]) for i in range(64)]
            assert store.put_many(names, [value[i:i + 4096] for i in range(64)]) == [None] * 64
            assert store.match(names).present == 64
            assert len(list(store.list())) == 65
    print(f'pealkv {pealkv.__version__}, Python {sys.version.split()[0]}: all is well')


if __name__ == '__main__':
    main()
