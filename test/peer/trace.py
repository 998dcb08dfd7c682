#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal trace against a daemon with two reactors: a line for each command, hops in order.

    trace.py PEALD PEAL
"""
import csv
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import peer
from block import FLUSH, READ, WRITE, BlockHost

PEALD, PEAL = sys.argv[1:3]
HOPS = ('fetched_ns', 'store_ns', 'copied_ns', 'done_ns', 'cqe_ns')


def peal(uri, *args):
    return subprocess.run([PEAL, '--uri', uri, '--timeout', '60000', *args], text=True,
                          stdout=subprocess.PIPE, check=True).stdout


class Trace:
    """Runs until stop(), which gives the rows."""

    def __init__(self, uri, *args):
        self.process = subprocess.Popen([PEAL, '--uri', uri, '--timeout', '60000', 'trace',
                                         '--seconds', '600', *args], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.text = self.process.stdout.readline()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        """All the time: a full pipe would hold the tracer up."""
        while more := self.process.stdout.read(65536):
            self.text += more

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        err = self.process.stderr.read()
        self.reader.join(60)
        assert self.process.wait(60) == 0, err
        rows = list(csv.DictReader(io.StringIO(self.text)))
        nr, dropped = re.fullmatch(r'(\d+) commands, (\d+) dropped\n', err).groups()
        assert int(nr) == len(rows), err
        self.dropped = int(dropped)
        return rows


def check(row):
    hops = [int(row[h]) for h in HOPS if row[h] and h not in ('store_ns', 'copied_ns')]
    assert hops == sorted(hops) and hops[0] >= 0, row
    for hop in ('store_ns', 'copied_ns'):
        if row[hop]:
            assert int(row['fetched_ns']) <= int(row[hop]) <= int(row['done_ns']), row
    if row['command'] == 'Retrieve' and row['status'] == '000' and row['bytes'] != '0':
        assert int(row['store_ns']) <= int(row['copied_ns']), row
    if row['command'] == 'Store' and row['status'] == '000':
        assert int(row['copied_ns']) <= int(row['store_ns']), row
    assert row['cqe_ns'], row


with tempfile.TemporaryDirectory() as folder, \
        peer.daemon(PEALD, '--dram', '64M', '--reactors', '2', '--block',
                    f'{folder}/disk,size=4M') as d:
    t = Trace(d.uri)
    peal(d.uri, 'put', 'hello', '--value', 'x' * 5000)
    assert peal(d.uri, 'get', 'hello') == 'x' * 5000
    peal(d.uri, 'del', 'hello')
    peal(d.uri, 'probe')
    # Somebody else can't switch it on meanwhile.
    second = subprocess.run([PEAL, '--uri', d.uri, 'trace'], stderr=subprocess.PIPE, text=True)
    assert second.returncode == 3 and second.stderr == \
        'peal trace: another trace is on, expected none\n', second
    rows = t.stop()
    assert t.dropped == 0
    for row in rows:
        check(row)
    mine = [r for r in rows if r['key'] == 'hello']
    assert [r['command'] for r in mine][0] == 'Store' and mine[0]['bytes'] == '5000', mine
    assert [r['command'] for r in mine][-1] == 'Delete' and mine[-1]['status'] == '000', mine
    exist = [r for r in rows if r['command'] == 'Exist']
    assert len(exist) >= 3000, 'all of the waves of the probe'
    assert len({r['controller'] for r in rows}) == 4
    assert {r['worker'] for r in rows} == {'0', '1'}
    print(len(rows), 'rows')

    # More than can be read in time: some are dropped, the others are whole.
    t = Trace(d.uri)
    peal(d.uri, 'bench', '--op', 'get', '--keys', '64', '--size', '4K', '--seconds', '1')
    rows = t.stop()
    for row in rows:
        check(row)
    assert len([r for r in rows if r['command'] == 'Retrieve']) > 100
    print(len(rows), 'rows of a load,', t.dropped, 'dropped')

    # One controller alone, whose number the first trace has; of a block namespace, too.
    host = BlockHost(d.folder)
    t = Trace(d.uri)
    assert host.one(WRITE, slba=1000) == 0
    assert host.one(READ, slba=1000, nlb=8) == 0
    assert host.one(FLUSH) == 0
    rows = t.stop()
    assert [(r['opcode'], r['command'], r['namespace'], r['key'], r['bytes']) for r in rows] == [
        ('01', 'Write', '2', '1000', '512'), ('02', 'Read', '2', '1000', '4096'),
        ('00', 'Flush', '2', '', '0')], rows
    t = Trace(d.uri, '--controller', rows[0]['controller'])
    peal(d.uri, 'put', 'a', '--value', '1')
    assert host.one(WRITE, slba=1) == 0
    peal(d.uri, 'put', 'b', '--value', '2')
    assert [r['key'] for r in t.stop()] == ['1']
    host.sock.close()
    refused = subprocess.run([PEAL, '--uri', d.uri, 'trace', '-c', '999'], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert refused.returncode == 1 and not refused.stdout, refused
    assert refused.stderr == \
        "peal trace: no controller 999, expected one of the daemon's log\n", refused

    # It ends when its time is over or it is interrupted, however much there is to tell: to a
    # reader that keeps it behind, it always has more.
    load = subprocess.Popen([PEAL, '--uri', d.uri, 'bench', '--op', 'exist', '--keys', '64',
                             '--seconds', '600'], stdout=subprocess.DEVNULL)
    for is_interrupted in False, True:
        with subprocess.Popen([PEAL, '--uri', d.uri, 'trace', '--seconds',
                               '600' if is_interrupted else '1'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as slow:
            nr = 0
            while some := slow.stdout.read1(4096):
                if nr == 0 and is_interrupted:
                    slow.send_signal(signal.SIGINT)
                nr += some.count(b'\n')
                assert nr < 300000, 'more than its time and the rings of two workers have'
                time.sleep(0.002)  # between two reads: it doesn't keep up
            assert slow.wait(60) == 0 and nr > 1
    load.terminate()
    load.wait(60)

    # A tracer that is killed leaves nothing switched on.
    t = Trace(d.uri)
    t.process.kill()
    t.process.wait(60)
    t.reader.join(60)
    t = Trace(d.uri)
    assert t.stop() == []
    refused = subprocess.run([PEAL, '--uri', d.uri, 'record', '1'], stderr=subprocess.PIPE)
    assert refused.returncode == 1 and b'no controller 1,' in refused.stderr, refused

# Recorded is who is named, from then on.
with tempfile.TemporaryDirectory() as folder, \
        peer.daemon(PEALD, '--dram', '64M', '--record', folder, '--record-all', 'no') as d:
    host = BlockHost(d.folder)
    assert os.listdir(folder) == []
    peal(d.uri, 'record', '1')
    host.one(FLUSH)  # a file without commands wouldn't be kept
    again = subprocess.run([PEAL, '--uri', d.uri, 'record', '1'], stderr=subprocess.PIPE)
    assert again.returncode == 3
    assert len(os.listdir(folder)) == 1
    peal(d.uri, 'record', '--stop', '1')
    name = os.path.join(folder, os.listdir(folder)[0])
    size = os.path.getsize(name)
    assert size >= 24, 'whole while its client is still there'
    again = subprocess.run([PEAL, '--uri', d.uri, 'record', '--stop', '1'], stderr=subprocess.PIPE)
    assert again.returncode == 3
    peal(d.uri, 'record', '1')
    host.one(FLUSH)
    assert len(os.listdir(folder)) == 2
    host.sock.close()
    assert os.path.getsize(name) == size
