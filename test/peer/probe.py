# SPDX-License-Identifier: Apache-2.0
"""peal probe against devices with one fault each: exactly that layer is named.

And what peal(1) does every day, against the same device without faults: a second implementation,
in Python, that shares nothing with peald. pytest; $PEAL and $PEALD are the programs.
"""
import json
import os
import subprocess
import sys

import pytest

import peer
import vfu_device

PEAL, PEALD = os.environ['PEAL'], os.environ['PEALD']
DEVICE = vfu_device.__file__

# Which layer a fault is in.
NAMED = {
    'not-vfio-user': 'version',
    'major-1': 'version',
    'class': 'device',
    'mqes-255': 'registers',
    'aqa-stuck': 'registers',
    'rdy-stuck': 'registers',
    'no-kv-css': 'registers',
    'overlap': 'dma-map',
    'unmap-late': 'dma-map',
    'no-bell-map': 'doorbells',
    'dead-bells': 'doorbells',
    'admin-dead': 'admin-queue',
    'no-namespace': 'admin-queue',
    'io-dead': 'io-queue',
    'zero-sqes': 'sqe-seen',
    'stale-sqes': 'sqe-seen',
    'torn': 'cqe-whole',
    'torn-late': 'cqe-whole',
    'sq-head': 'cqe-whole',
    'wrong-value': 'value-right',
    'other-value': 'value-right',
    'no-length': 'value-right',
    'prp-offset': 'data-pointer',
    'prp-list': 'data-pointer',
    'prp-chain': 'data-pointer',
    'sgl-segment': 'data-pointer',
    'queues-stay': 'clean-up',
}
# Faults behind which everything else can still be checked.
ALONE = ('mqes-255', 'overlap', 'no-bell-map', 'dead-bells', 'torn', 'torn-late', 'sq-head',
         'no-length', 'queues-stay')


class Device:
    """The Python device as a process; `with` ends it."""

    def __init__(self, folder, *faults):
        self.path = os.path.join(folder, 'cntrl')
        self.uri = 'vfu:' + self.path
        self.process = subprocess.Popen([sys.executable, DEVICE, self.path, *faults],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().strip() == self.path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


def peal(uri, *args, data=None):
    """(status, output)"""
    r = subprocess.run([PEAL, '--uri', uri, '--timeout', '60000', *args], input=data, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return r.returncode, r.stdout


def probe(uri, ms='20000'):
    """(status, {layer: (verdict, text)}, last line)"""
    r = subprocess.run([PEAL, 'probe', '--json', '--timeout', ms, uri], text=True,
                       stdout=subprocess.PIPE, timeout=120)
    *lines, last = [json.loads(line) for line in r.stdout.splitlines()]
    for line in lines:
        print(f"{line['layer']:14} {line['verdict']:12} {line['text']}")
    return r.returncode, {x['layer']: (x['verdict'], x['text']) for x in lines}, last


def verdicts(layers, verdict):
    return [name for name, (v, _) in layers.items() if v == verdict]


def test_every_fault_has_a_layer():
    assert set(NAMED) == set(vfu_device.FAULTS)


@pytest.mark.parametrize('fault', NAMED)
def test_fault(tmp_path, fault):
    # Where nothing answers, the time is waited for.
    waits = fault in ('rdy-stuck', 'dead-bells', 'admin-dead', 'io-dead', 'not-vfio-user')
    with Device(tmp_path, fault) as d:
        rc, layers, last = probe(d.uri, '12000' if waits else '60000')
    assert rc == 3
    assert verdicts(layers, 'bad') == [NAMED[fault]]
    assert last['bad'] == 1
    names = list(layers)
    before = {layers[n][0] for n in names[:names.index(NAMED[fault])] if n != 'doorbells'}
    assert before <= {'good'}
    if fault in ALONE:
        assert not verdicts(layers, 'not checked')
    elif layers['dma-map'][0] == 'good':
        assert layers['clean-up'][0] == 'good'


def test_no_socket(tmp_path):
    rc, layers, last = probe(f'vfu:{tmp_path}/cntrl')
    assert rc == 3
    assert verdicts(layers, 'bad') == ['socket'] and 'is peald running' in layers['socket'][1]
    assert last['not_checked'] == len(layers) - 1


def test_nobody_answers(tmp_path):
    """A listener that accepts and says nothing: the probe ends in its time."""
    import socket
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / 'cntrl'))
        s.listen(1)
        rc, layers, _ = probe(f'vfu:{tmp_path}/cntrl', '500')
    assert rc == 3 and verdicts(layers, 'bad') == ['version']
    assert 'no answer in time' in layers['version'][1]


def test_good_device(tmp_path):
    with Device(tmp_path) as d:
        rc, layers, last = probe(d.uri, '60000')
        assert peal(d.uri, 'ls') == (0, ''), 'nothing is left'
    assert rc == 0 and last['good'] == len(layers), layers


def test_peald():
    with peer.daemon(PEALD, '--dram', '64M') as d:
        assert peal(d.uri, 'put', 'mine', '--value', 'untouched')[0] == 0
        rc, layers, last = probe(d.uri)
        assert rc == 0 and last['good'] == len(layers), layers
        assert peal(d.uri, 'ls') == (0, 'mine\n')
        assert peal(d.uri, 'get', 'mine') == (0, 'untouched')
        rc, text = peal(d.uri, 'probe')
        assert rc == 0 and 'value-right   good' in text
        assert peal(d.uri, 'probe', '--ns', '7')[1].count('no KV namespace 7') == 1


def test_peal_against_python(tmp_path):
    """libpeal's and peal(1)'s basics against a device that isn't ours."""
    with Device(tmp_path) as d:
        assert peal(d.uri, 'get', 'hello')[0] == 1
        assert peal(d.uri, 'put', 'hello', '--value', 'world')[0] == 0
        assert peal(d.uri, 'get', 'hello') == (0, 'world')
        assert peal(d.uri, 'put', 'hello', '--if-absent', '--value', 'x')[0] == 3
        assert peal(d.uri, 'put', 'other', '--if-present', '--value', 'x')[0] == 1
        assert peal(d.uri, 'exist', 'hello', 'other') == (1, 'hello 5\nother missing\n')
        long = 'peal' * 50001
        assert peal(d.uri, 'put', '0x00ff', data=long)[0] == 0
        assert peal(d.uri, 'get', '0x00ff') == (0, long)
        assert peal(d.uri, 'put', 'hello', '--value', 'again')[0] == 0
        assert peal(d.uri, 'get', 'hello') == (0, 'again')
        assert sorted(peal(d.uri, 'ls')[1].split()) == ['0x00ff', 'hello']
        assert peal(d.uri, 'del', 'hello')[0] == 0
        assert peal(d.uri, 'del', 'hello')[0] == 1
        assert peal(d.uri, 'get', 'hello')[0] == 1
        assert 'no KV namespace 2' in peal(d.uri, '--ns', '2', 'exist', 'x')[1]
