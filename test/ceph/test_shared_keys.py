# SPDX-License-Identifier: Apache-2.0
"""Two daemons over one pool, ten thousand stores, overwrites, deletes and reads of the same few
keys at the same time, by a client each that lives as long: what either was given, against the
history of each key.

usage: PEALD=... PYTHONPATH=BUILD/python:... python3 -m pytest test_shared_keys.py
"""

import hashlib
import os
import random
import threading
import time
from dataclasses import dataclass

import mini_ceph
import pealkv
from nodes import node, until

NR_OPS = int(os.environ.get('PEAL_OPS', 10000))
SEED = int(os.environ.get('PEAL_SEED', 20261130))
NR_KEYS = 12
FRESH_S = 1  # that another node's change may be unseen


@dataclass
class Op:
    """value: what was put or got, by its number; None: a delete, or a miss."""
    who: int
    verb: str
    key: int
    begin: float
    end: float
    value: int | None


def key_of(k):
    return b'shared %02d' % k


def value_of(number):
    """Of bytes that only this put has; some of several chunks, some of several pieces."""
    text = b'%d' % number
    most = 8000 if number % 16 else 200000 if number % 64 else 1500000
    size = 20 + int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), 'little') % most
    return text.rjust(20) + hashlib.shake_128(text).digest(size - 20)


def number_of(got, puts):
    """Of which put it is, whole."""
    if got is None:
        return None
    assert got[:20].strip().isdigit(), got[:20]
    number = int(got[:20])
    assert number in puts, number
    assert got == value_of(number), f'wrong bytes of put {number}'
    return number


class Client(threading.Thread):
    """One node's: operations one after the other."""

    def __init__(self, who, uri, nr):
        super().__init__()
        self.who, self.nr = who, nr
        self.store = pealkv.open(uri, timeout=20)
        self.rng = random.Random(SEED + who)
        self.ops, self.got, self.error = [], [], None

    def one(self, i):
        k = self.rng.randrange(NR_KEYS)
        what = self.rng.random()
        number = 2 * i + self.who if what < .35 else None
        value = value_of(number) if what < .35 else None
        begin = time.monotonic()
        if what < .35:
            verb = 'put'
            self.store.put(key_of(k), value)
        elif what < .5:
            verb = 'delete'
            self.store.delete(key_of(k))
        else:
            verb = 'get'
            value = self.store.get(key_of(k))
        self.ops.append(Op(self.who, verb, k, begin, time.monotonic(), number))
        if verb == 'get':
            self.got.append((self.ops[-1], value))

    def run(self):
        try:
            for i in range(self.nr):
                self.one(i)
        except Exception as e:  # pylint: disable=broad-except
            self.error = e


def is_hidden(get, was, writes):
    """Must it have seen a change behind `was` instead? Its own node's at once, another's within
    FRESH_S."""
    return any(w.begin > was.end and w.end + (0 if w.who == get.who else FRESH_S) < get.begin
               for w in writes)


def check_get(get, writes):
    """It was given what was there at some time that it may have seen."""
    may = [w for w in writes if w.value == get.value and w.begin < get.end]
    assert may, f'{get}: of nobody'
    assert any(not is_hidden(get, w, writes) for w in may), f'{get}: old; {may[-1]}'


def check(ops, gets):
    for k in range(NR_KEYS):
        writes = [Op(-1, 'delete', k, -1, -1, None)]  # it wasn't there
        writes += [op for op in ops if op.key == k and op.verb != 'get']
        for get in gets:
            if get.key == k:
                check_get(get, writes)


def test_shared_keys():
    print(f'seed {SEED}')
    how = {'ack': 'rados', 'immutable': 'no'}
    with mini_ceph.cluster() as c, node(c, **how) as a, node(c, **how) as b:
        clients = [Client(who, n.uri, NR_OPS // 2) for who, n in enumerate((a, b))]
        begin = time.monotonic()
        for t in clients:
            t.start()
        for t in clients:
            t.join()
            if t.error:
                raise t.error
        took = time.monotonic() - begin
        ops = clients[0].ops + clients[1].ops
        puts = {op.value for op in ops if op.verb == 'put'}
        gets = []
        for t in clients:
            for op, value in t.got:
                op.value = number_of(value, puts)
                gets.append(op)
        check(ops, gets)

        # Long enough after: both say what the pool has.
        last = max(op.end for op in ops)
        until('all is old', lambda: time.monotonic() > last + FRESH_S)
        pool = c.rados('peal').open_ioctx('kv')
        pool.set_namespace('kv')
        there = {o.key for o in pool.list_objects()}
        final = []
        for k in range(NR_KEYS):
            for t in clients:
                at = time.monotonic()
                value = t.store.get(key_of(k))
                final.append(Op(t.who, 'get', k, at, time.monotonic(), number_of(value, puts)))
                assert (value is not None) == (key_of(k).hex() in there)
                assert value is None or pool.read(key_of(k).hex(), 2 << 20) == value
            assert final[-1].value == final[-2].value
        check(ops, final)
        for t in clients:
            t.store.close()
        hits = sum(op.value is not None for op in gets)
        print(f'{len(ops)} operations in {took:.1f} s: {len(puts)} puts, {len(gets)} gets, '
              f'{hits} of them hits')
        assert hits > len(gets) / 4
