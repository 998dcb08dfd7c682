# SPDX-License-Identifier: Apache-2.0
"""What moves values for the engines, with a client that fails as it is told; and the options that
all of them check. test_lmcache.py has the same with a daemon."""

import logging
import threading
import types

import pytest

import pealkv
from pealkv import _batch, _mover, keys
from pealkv._mover import Mover, Transfer

LOG = logging.getLogger('test')
SPACE = keys.Space(model='m', dtype='d', layout='l', block_tokens=1, hash='h')
TIMEOUT = 20.0


class Link:
    """As _link.Link, with a client made of functions."""

    is_up = True

    def __init__(self, **calls):
        self.calls, self.errors = calls, []

    def client(self):
        return types.SimpleNamespace(**self.calls)

    def failed(self, error):
        self.errors.append(type(error))


@pytest.fixture
def run():
    """A transfer's end, by a mover with that link."""
    movers = []

    def run(link, verb, nr, buffers=(), **more):
        mover = Mover(link, SPACE, more.pop('threads', 2), 100, LOG)
        movers.append(mover)
        ended = threading.Event()
        t = Transfer(verb, [b'k%d' % i for i in range(nr)], buffers, more.pop('timeout', TIMEOUT),
                     lambda _: ended.set())
        mover.start(t)
        assert ended.wait(30)
        return t

    yield run
    for mover in movers:
        mover.close()


def test_worst_error(run):
    """A value's error doesn't hide the daemon's: the link is told, and nothing more is called."""
    results = [[pealkv.NoSpace('full'), None, pealkv.Timeout('late')], [None] * 3]
    link = Link(put_many=lambda *_, **__: results.pop(0))
    t = run(link, _mover.PUT, 6, [bytes(_mover.CALL_BYTES // 3)] * 6, threads=1)
    assert t.error == 'late' and t.results == [False, True] + [False] * 4
    assert link.errors == [pealkv.Timeout] and len(results) == 1


def test_first_of_equals(run):
    link = Link(put_many=lambda *_, **__: [pealkv.NoSpace('one'), None, pealkv.Busy('two')])
    t = run(link, _mover.PUT, 3, [b'v'] * 3)
    assert t.error == 'one' and t.results == [False, True, False]
    assert link.errors == [pealkv.NoSpace]  # which the link knows what to do with


def test_calls_by_bytes(run, monkeypatch):
    """No call has more than CALL_BYTES, wherever in the transfer the large values are."""
    monkeypatch.setattr(_mover, 'CALL_BYTES', 1000)
    sizes = [600, 600, 400, 5000] + [1] * 60
    calls = []
    link = Link(put_many=lambda _, values, **__: calls.append([len(v) for v in values])
                or [None] * len(values))
    t = run(link, _mover.PUT, len(sizes), [bytes(n) for n in sizes])
    assert all(t.results) and [n for c in calls for n in c] == sizes
    assert calls[:3] == [[600], [600, 400], [5000]] and len(calls) == 4


def test_one_deadline(run, monkeypatch):
    """A save asks first and puts then, within one time."""
    now = [100.0]
    monkeypatch.setattr(_mover.time, 'monotonic', lambda: now[0])
    given = []

    def exist_many(made, timeout):
        given.append(timeout)
        now[0] += 15
        return [False] * (len(made) // 16)

    def put_many(made, values, tags, timeout):
        given.append(timeout)
        return [None] * len(values)

    assert run(Link(exist_many=exist_many, put_many=put_many), _mover.SAVE, 2, [b'v'] * 2).results
    assert given == [TIMEOUT, 5]
    now[0], given[:] = 100.0, []

    def slow(made, timeout):
        now[0] += 25
        return [False, True]

    t = run(Link(exist_many=slow, put_many=put_many), _mover.SAVE, 2, [b'v'] * 2)
    assert t.error and not given  # not once more


def test_nothing_new(run):
    """What is all there isn't put."""
    t = run(Link(exist_many=lambda made, timeout: [True, True]), _mover.SAVE, 2, [b'v'] * 2)
    assert t.results == [True, True] and not t.error


def test_closed_on_the_way(monkeypatch):
    """What a close leaves undone isn't told as absent."""
    monkeypatch.setattr(_mover, 'CALL_BYTES', 1)
    ended, inside, go = [], threading.Event(), threading.Event()

    def get_many(made, buffers, want_tags, timeout):
        inside.set()
        assert go.wait(30)
        return [1]

    mover = Mover(Link(get_many=get_many), SPACE, 1, 10, LOG)
    mover.start(Transfer(_mover.GET, [b'a', b'b'], [bytearray(1)] * 2, TIMEOUT, ended.append))
    assert inside.wait(30)
    closing = threading.Thread(target=mover.close)
    closing.start()
    while not mover._is_closed:
        threading.Event().wait(0.001)
    go.set()
    closing.join(30)
    t, = ended
    assert t.results == [True, False] and 'closed' in t.error


def test_hint(run):
    said = []
    t = run(Link(hint=lambda hints, timeout: said.append((hints, timeout)) or 2), _mover.HINT, 2)
    (hints, timeout), = said
    assert [h.key for h in hints] == [SPACE.key(b'k0'), SPACE.key(b'k1')] and timeout <= TIMEOUT
    assert t.results == [True, True] and not t.error

    def fail(error):
        def hint(hints, timeout):
            raise error
        return hint

    assert not run(Link(hint=fail(pealkv.Unsupported('no'))), _mover.HINT, 1).error
    link = Link(hint=fail(pealkv.Timeout('late')))
    assert run(link, _mover.HINT, 1).error == 'late' and link.errors == [pealkv.Timeout]


def test_rename():
    asked, ended = [], threading.Semaphore(0)
    link = Link(exist_many=lambda made, timeout: asked.append(made) or [True])
    mover = Mover(link, SPACE, 1, 10, LOG)
    other = keys.Space(model='m', dtype='d', layout='l', block_tokens=1, hash='h', salt=b's')
    for space in (SPACE, other):
        mover.rename(space)
        mover.start(Transfer(_mover.EXIST, [b'k'], (), TIMEOUT, lambda _: ended.release()))
        assert ended.acquire(timeout=30)
    mover.close()
    assert asked == [SPACE.key(b'k'), other.key(b'k')]


@pytest.mark.parametrize('wrong, why', [
    ({'timeout_s': '2'}, 'timeout_s'), ({'timeout_s': None}, 'timeout_s'),
    ({'timeout_s': True}, 'timeout_s'), ({'timeout_s': float('nan')}, 'timeout_s'),
    ({'timeout_s': 0}, 'timeout_s'), ({'timeout_s': 1e9}, 'timeout_s'),
    ({'threads': '4'}, 'threads'), ({'threads': 2.0}, 'threads'), ({'threads': True}, 'threads'),
    ({'threads': 0}, 'threads'), ({'threads': 100000}, 'threads'), ({'texts': {'salt': 5}}, 'salt'),
])
def test_options(wrong, why):
    good = {'texts': {'salt': ''}, 'timeout_s': 2, 'threads': 4}
    _mover.check_options('x', **good)
    with pytest.raises(ValueError, match=f'x: {why} is'):
        _mover.check_options('x', **{**good, **wrong})


def test_no_more_queues(store, monkeypatch):
    """A daemon that grants no more of them: batches wait for those that there are."""
    store.exist_many([b'k'])  # which opens one
    refused = threading.Event()

    def make(client):
        refused.set()
        raise pealkv.Busy('no queue is left')

    monkeypatch.setattr(_batch, '_Queue', make)
    give, inside, go = store._give_queue, threading.Event(), threading.Event()

    def slow(q):
        inside.set()
        assert go.wait(30)
        give(q)

    store._give_queue = slow
    first = threading.Thread(target=store.exist_many, args=([b'k'],))
    first.start()
    assert inside.wait(30)
    results = []
    second = threading.Thread(target=lambda: results.append(store.exist_many([b'k'])))
    second.start()
    assert refused.wait(30)
    go.set()
    second.join(30)
    first.join(30)
    assert results == [[False]] and store._nr_queues == 1
