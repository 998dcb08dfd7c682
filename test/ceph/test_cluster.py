# SPDX-License-Identifier: Apache-2.0
"""The rig itself: what it promises about rights, failures and what is left of it."""

import os
import select
import signal
import socket
import subprocess
import threading

import mini_ceph
import pytest
import rados

CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'cluster')


def cluster(*args, rc=0):
    done = subprocess.run([CLUSTER, *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == rc, done.stderr
    return done.stdout.strip(), done.stderr.strip()


def daemons(folder):
    """Pids of what has this folder's conf, whoever started it."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', encoding='utf-8', errors='replace') as f:
                if f'{folder}/ceph.conf' in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_gone(pids):
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([fd], [], [], 30)[0], f'process {pid} is still there'
        os.close(fd)


@pytest.fixture(scope='module')
def c():
    with mini_ceph.cluster(settings=mini_ceph.LONG_LEASES) as it:
        yield it


def ioctx(c, user, pool='kv', namespace='kv', **conf):
    io = c.rados(user, **conf).open_ioctx(pool)
    io.set_namespace(namespace)
    return io


def test_rights(c):
    io = ioctx(c, 'peal')
    io.write_full('a', b'x' * 5000)
    assert io.read('a', 8192) == b'x' * 5000
    io.set_xattr('a', 'n', b'1')
    assert [o.key for o in io.list_objects()] == ['a']
    io.remove_object('a')
    for pool, namespace in (('kv', ''), ('kv', 'other'), ('rbd', 'kv')):
        with pytest.raises(rados.PermissionError):
            ioctx(c, 'peal', pool, namespace).write_full('a', b'x')
    with pytest.raises(rados.PermissionError):
        ioctx(c, 'peal', namespace='other').read('a')


def test_no_key(c):
    c.write('client.peal-wrong.keyring', '[client.peal-wrong]\n'
            '\tkey = AQDUsg1r1Z7kGRAACSg7ydFKiX0TfeyM9Dh70w==\n')
    with pytest.raises((rados.PermissionDeniedError, rados.PermissionError)):
        c.rados('peal-wrong')
    with pytest.raises(rados.ObjectNotFound):  # no key ring
        c.rados('peal-nobody')


def test_user_may_watch(c):
    io = ioctx(c, 'peal')
    io.write_full('watched', b'')
    told = threading.Event()

    def tell(notify_id, notifier, watch_id, data):
        assert data == b'hello'
        told.set()
        return b''

    watch = io.watch('watched', tell)
    io.notify('watched', 'hello')
    assert told.is_set() or told.wait(30)
    watch.close()


def test_classes(c):
    io = ioctx(c, 'peal-exec')
    io.write_full('h', b'')
    assert io.execute('h', 'hello', 'say_hello', b'Ceph')[1].startswith(b'Hello, Ceph')
    with pytest.raises(rados.PermissionError):
        ioctx(c, 'peal').execute('h', 'hello', 'say_hello', b'Ceph')


def test_osd_killed(c):
    io = ioctx(c, 'peal')
    io.write_full('kept', b'bytes')
    c.kill('osd.0')
    assert c.daemons['osd.0'].poll() is not None
    c.revive_osds('osd.0')
    assert io.read('kept') == b'bytes'


def test_frozen(c):
    io = ioctx(c, 'peal', rados_osd_op_timeout='1')
    io.write_full('kept', b'bytes')
    c.freeze()
    try:
        with pytest.raises(rados.TimedOut):
            io.read('kept')
    finally:
        c.thaw()
    assert ioctx(c, 'peal').read('kept') == b'bytes'


def test_monitor_killed(c):
    io = ioctx(c, 'peal')
    c.kill('mon')
    io.write_full('kept', b'without a monitor')
    c.revive('mon')
    assert ioctx(c, 'peal').read('kept') == b'without a monitor'


def test_three_and_ec():
    with mini_ceph.cluster(osds=3, ec=True) as it:
        io = ioctx(it, 'peal')
        io.write_full('a', b'1')
        ec = ioctx(it, 'peal', 'ec')
        ec.write_full('a', b'0123456789' * 10000)
        ec.write('a', b'XX', 50001)
        it.kill('1')
        assert io.read('a') == b'1'
        io.write_full('a', b'2')
        want = bytearray(b'0123456789' * 10000)
        want[50001:50003] = b'XX'
        assert ec.read('a', 1 << 20) == want
        it.revive_osds('1')
        assert it.nr_up() == 3


def test_quota_takes_a_manager():
    settings = ('mgr_stats_period = 1', 'osd_mgr_stats = 1', 'mgr_tick_period = 1',
                'mon_mgr_digest_period = 1')
    with mini_ceph.cluster(mgr=True, settings=settings) as it:
        it.command('osd pool set-quota', pool='kv', field='max_objects', val='10')
        io = ioctx(it, 'peal', rados_osd_op_timeout='2')
        # A write to a pool that is full waits for room, unless it says otherwise.
        with pytest.raises(rados.TimedOut):
            for i in range(100000):
                io.write_full(str(i), b'1')
        assert i >= 10
        assert 'POOL_FULL' in it.command('health', detail='detail')['checks']
        assert io.read('0') == b'1'


def test_by_hand(tmp_path):
    folder = tmp_path / 'c'
    assert cluster('start', folder)[0] == f'{folder}/ceph.conf'
    pids = daemons(folder)
    assert len(pids) == 2
    assert 'runs' in cluster('start', folder, rc=1)[1]
    ring = cluster('user', folder, 'mine', 'allow rw pool=kv')[0]
    assert ring == f'{folder}/client.mine.keyring'
    cluster('kill-osd', folder, 0)
    assert len(daemons(folder)) == 1
    cluster('start-osd', folder, 0)
    assert 'no osd.7' in cluster('freeze', folder, 7, rc=1)[1]
    cluster('freeze', folder)
    pids += daemons(folder)
    cluster('stop', folder)
    wait_gone(pids)
    assert not folder.exists()
    cluster('stop', folder)


def test_keeper_killed(tmp_path):
    folder = tmp_path / 'c'
    cluster('start', folder)
    pids = daemons(folder)
    with open(f'/proc/{pids[0]}/stat', encoding='ascii') as f:
        keeper = int(f.read().rsplit(')', 1)[1].split()[1])
    cluster('freeze', folder, 'osd')
    os.kill(keeper, signal.SIGKILL)
    wait_gone(pids)
    # What is left of it is in nobody's way. This one ends with whom it is for.
    p = subprocess.Popen(['cat'], stdin=subprocess.PIPE)
    cluster('start', folder, '--for', p.pid)
    pids = daemons(folder)
    p.kill()
    p.wait()
    wait_gone(pids)
    cluster('stop', folder)
    assert not folder.exists()


def test_run():
    say = 'rados --id peal -p kv -N kv put a /etc/hostname && echo $PEAL_CEPH_DIR; exit 7'
    folder = cluster('run', '--', 'sh', '-c', say, rc=7)[0]
    assert folder and not os.path.exists(folder) and not daemons(folder)


def test_keeper_that_says_nothing(tmp_path):
    """One that goes in the middle of a call hasn't done it."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f'{tmp_path}/ctl')
        s.listen(1)

        def serve():
            conn = s.accept()[0]
            conn.makefile().readline()
            conn.close()
        t = threading.Thread(target=serve)
        t.start()
        assert 'without an answer' in cluster('freeze', tmp_path, rc=1)[1]
        t.join()


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / 'precious').write_text('x')
    assert 'neither' in cluster('start', tmp_path, rc=1)[1]
    assert 'no test cluster' in cluster('stop', tmp_path, rc=1)[1]
    assert (tmp_path / 'precious').exists()
