# SPDX-License-Identifier: Apache-2.0
"""A block namespace on an RBD image, through a real peald, by a host that shares no code with it:
what test/peer/block.py does with a file, the image's bytes by Ceph's own tool, two daemons that
want one image, a cluster that doesn't answer.
"""

import os
import random
import struct
import subprocess

import vfu_host
vfu_host.DEPTH = 64  # a page of SQEs: more than a worker lets into librbd at once

import block  # noqa: E402
import mini_ceph  # noqa: E402
import peer  # noqa: E402
import pytest  # noqa: E402

INTERRUPTED, READ_ERROR = 0x21, 0x281
NR_BYTES = block.NR * block.LBA


@pytest.fixture(scope='module')
def c():
    # A client that is killed keeps its lock for as long as its watch lasts. Leases are longer than
    # an OSD stands still here: see test_rados.LONG_LEASES.
    with mini_ceph.cluster(settings=('osd_client_watch_timeout = 4',
                                     'osd_pool_default_read_lease_ratio = 10')) as it:
        yield it


def image(c, name, more='', user='peal-rbd'):
    return f'rbd:rbd/{name}?conf={c.conf}&id={user}{more},size={NR_BYTES >> 10}K'


def start(folder, where, reactors=2):
    return peer.Daemon(os.environ['PEALD'], str(folder), '--dram', '64M', '--reactors',
                       str(reactors), '--block', where)


def stop(d, host=None):
    if host:
        host.sock.close()
    d.stop()
    assert d.process.returncode == 0, d.log


def refused(folder, where):
    done = subprocess.run([os.environ['PEALD'], '--dir', str(folder), '--dram', '64M', '--block',
                           where], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False)
    assert done.returncode, done.stdout
    return done.stdout


def bytes_of(c, name):
    return subprocess.run(['rbd', '-c', c.conf, '--id', 'peal-rbd', 'export', '--no-progress',
                           f'rbd/{name}', '-'], check=True, stdout=subprocess.PIPE,
                          timeout=60).stdout


def test_model(c, tmp_path):
    random.seed(1)
    model = bytearray(NR_BYTES)
    d = start(tmp_path, image(c, 'model'))
    host = block.BlockHost(tmp_path)
    for _ in range(30):
        block.change(host, model)
        block.check(host, model)
    assert host.one(block.READ, slba=block.NR, nlb=1) == block.LBA_RANGE
    assert host.one(block.FLUSH) == 0
    assert bytes_of(c, 'model') == model
    d.process.kill()
    d.process.wait()
    host.sock.close()
    d = start(tmp_path, image(c, 'model'))
    host = block.BlockHost(tmp_path)
    block.check_all(host, model)
    # All of it at once, more than is let into librbd: zeroes take no buffer.
    for slot in range(block.DEPTH - 1):
        host.submit(slot, block.ZEROES, slot * 8, 8)
    assert set(host.ring(block.DEPTH - 1).values()) == {0}
    model[:(block.DEPTH - 1) * 8 * block.LBA] = bytes((block.DEPTH - 1) * 8 * block.LBA)
    block.check_all(host, model)
    stop(d, host)
    assert bytes_of(c, 'model') == model
    # Stopped well: the lock is free at once, and the size may be left out.
    d = start(tmp_path, image(c, 'model').split(',')[0])
    stop(d)


def test_one_daemon_an_image(c, tmp_path):
    (tmp_path / 'other').mkdir()
    d = start(tmp_path, image(c, 'shared'))
    assert "has the image's lock" in refused(tmp_path / 'other', image(c, 'shared'))
    stop(d)
    stop(start(tmp_path / 'other', image(c, 'shared')))


def test_refused(c, tmp_path):
    bare = f'rbd:rbd/none?conf={c.conf}&id=peal-rbd'
    assert 'size=SIZE would make it' in refused(tmp_path, bare)
    assert 'no monitor' in refused(tmp_path, image(c, 'x', user='nobody'))
    assert 'no ceph.conf' in refused(tmp_path, bare.replace(c.conf, '/nowhere'))
    assert 'the pool' in refused(tmp_path, bare.replace('rbd/none', 'nowhere/none'))
    assert 'Operation not permitted' in refused(tmp_path, image(c, 'x', user='peal'))
    assert 'another size' in refused(tmp_path, image(c, 'model').replace('size=', 'size=1'))
    assert 'expected rbd:POOL' in refused(tmp_path, 'rbd:rbd')
    subprocess.run(['rbd', '-c', c.conf, '--id', 'peal-rbd', 'create', '--size', '4M',
                    '--image-feature', 'layering', 'rbd/unlocked'], check=True, timeout=60)
    assert 'exclusive-lock' in refused(tmp_path, bare.replace('none', 'unlocked'))


def exists(folder, key):
    """Status of peal exist: asks the key-value namespace of the same daemon."""
    return subprocess.run([os.environ['PEAL_CLI'], '-u', f'vfu:{folder}/cntrl', 'exist', key],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30,
                          check=False)


def has_ended(host):
    """Is a command whose end hasn't been taken yet over?"""
    q = host.queues[1]
    return struct.unpack_from('<H', host.mem, q[1] + 16 * q[3] + 14)[0] & 1 == q[4]


def test_cluster_without_an_answer(c, tmp_path):
    data = random.randbytes(block.SLOT)
    d = start(tmp_path, image(c, 'frozen', '&timeout=5'), reactors=1)
    host = block.BlockHost(tmp_path)
    host.area[:block.SLOT] = data
    assert host.one(block.WRITE, slba=0, nlb=block.SLOT // block.LBA) == 0
    c.freeze()
    try:
        for slot, opc in enumerate((block.READ, block.WRITE, block.ZEROES)):
            host.submit(slot, opc, 1000, 8)
        host.bell(1, False, host.queues[1][2])
        # Asked of the one thread that has them, while they wait: it doesn't wait with them.
        done = exists(tmp_path, '0x11')
        assert done.returncode == 1, done.stdout
        assert not has_ended(host), 'they were over before it was asked'
        assert set(host.ring(3).values()) == {INTERRUPTED}
    finally:
        c.thaw()
    assert host.one(block.READ, slba=0, nlb=block.SLOT // block.LBA) == 0
    assert host.area[:block.SLOT] == data
    assert host.one(block.WRITE, slba=1000, nlb=8) == 0
    assert host.one(block.FLUSH) == 0
    stop(d, host)
    assert 'no answer' in d.log


def test_image_made_smaller(c, tmp_path):
    """What is gone is an error, not zeros."""
    d = start(tmp_path, image(c, 'cut'))
    host = block.BlockHost(tmp_path)
    subprocess.run(['rbd', '-c', c.conf, '--id', 'peal-rbd', 'resize', '--allow-shrink',
                    '--no-progress', '--size', '1M', 'rbd/cut'], check=True, timeout=60)
    assert host.one(block.READ, slba=0, nlb=8) == 0
    assert host.one(block.READ, slba=4096, nlb=8) == READ_ERROR
    assert host.one(block.WRITE, slba=4096, nlb=8) != 0
    stop(d, host)
