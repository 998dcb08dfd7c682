# SPDX-License-Identifier: Apache-2.0
"""A Ceph cluster on one node, for tests: a monitor, OSDs, their keys, pools and users.

All of it lies in one folder and listens on 127.0.0.1 at ports that were free. Nothing of it
outlives the process that made it: the daemons are its children and the kernel kills them with it,
so a test that is killed leaves a folder at most. test/ceph/README.md says what there is.

One thread, the main one: a child is killed when the thread that started it ends.
"""

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

MARK = 'this-is-a-test-cluster'
PORTS = 64  # a cluster's range: the monitor's, then what OSDs and manager take
START_S = 60
END_S = 10
# An OSD of Debian 12's Ceph that stands still for longer than its groups' read leases, 3.2 s here,
# may leave some of them "laggy" for ever: github.com/ceph/ceph-container/issues/1682,
# tracker.ceph.com/issues/80404. So a cluster that is frozen and then asked has longer ones. What a
# group that never answers does to the others is the matter of test_rados.test_dead_groups.
LONG_LEASES = ('osd_pool_default_read_lease_ratio = 10',)

CONF = '''\
[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{port}]
mon_initial_members = a
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
ms_bind_msgr1 = false
ms_bind_port_min = {port_min}
ms_bind_port_max = {port_max}
auth_cluster_required = {auth}
auth_service_required = {auth}
auth_client_required = {auth}
run_dir = {folder}/run
pid_file = {folder}/run/$name.pid
log_file = {folder}/log/$name.log
keyring = {folder}/$name.keyring
log_to_stderr = false
# A cluster of seconds: what fails is seen at once, nothing is warned of.
paxos_propose_interval = 0.05
paxos_min_wait = 0.02
osd_heartbeat_interval = 1
osd_heartbeat_grace = 4
osd_beacon_report_interval = 2
mon_osd_report_timeout = 10
mon_osd_min_down_reporters = 1
osd_max_markdown_count = 1000000
osd_mclock_skip_benchmark = true
osd_pool_default_size = {size}
osd_pool_default_min_size = {min_size}
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_crush_initial_weight = 1
mon_max_pg_per_osd = 1000
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
auth_allow_insecure_global_id_reclaim = false
mon_data_avail_warn = 1
mon_data_avail_crit = 1
[mon]
admin_socket = {folder}/run/$name.asok
mon_data = {folder}/mon.$id
keyring = {folder}/mon.keyring
[mgr]
admin_socket = {folder}/run/$name.asok
mgr_data = {folder}/mgr.$id
mgr_initial_modules =
[osd]
admin_socket = {folder}/run/$name.asok
osd_data = {folder}/osd.$id
osd_objectstore = bluestore
debug_rocksdb = 0
osd_memory_target = 1073741824
bluestore_block_size = {osd_bytes}
bluestore_block_create = true
bluestore_fsck_on_mount = false
osd_class_load_list = *
osd_class_default_list = *
osd_check_max_object_name_len_on_startup = false
'''


# In a mount namespace of its own, which goes with the process: the same folder in another system.
INSIDE = '''\
for at in /proc /dev "$1"; do
	mkdir -p "$0$at" && mount --rbind "$at" "$0$at" || exit 1
done
shift
exec chroot "$0" "$@"
'''


class Failed(Exception):
    """A cluster that can't be had, and why."""


def port_is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(('127.0.0.1', port))
            return True
        except OSError:
            return False


def free_ports():
    """The first of PORTS that nobody listens at, below those that the kernel gives to clients."""
    for _ in range(100):
        first = random.SystemRandom().randrange(10000, 32000, PORTS)
        if all(port_is_free(first + i) for i in range(PORTS)):
            return first
    raise Failed('no ports are free between 10000 and 32000')


def run(*args, **more):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=START_S, **more)
    if done.returncode:
        raise Failed(f'{" ".join(args)}: status {done.returncode}\n{done.stdout[-2000:]}')
    return done.stdout


def rm(folder):
    shutil.rmtree(folder, ignore_errors=True)


def is_stopped(pid):
    """Whether all its threads are, or are gone."""
    with contextlib.suppress(FileNotFoundError):
        for tid in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{tid}/stat', encoding='utf-8', errors='replace') as f:
                if f.read().rsplit(')', 1)[1].split()[0] not in 'TZX':
                    return False
    return True


def take_folder(folder):
    """The lock that says that it is ours. What a killed run has left in it goes."""
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.exists(f'{folder}/{MARK}'):
        raise Failed(f'{folder} is neither empty nor a test cluster')
    os.makedirs(folder, exist_ok=True)
    # Whoever finds the mark may remove the folder, so it comes first.
    lock = os.open(f'{folder}/{MARK}', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
        os.close(lock)
        raise Failed(f'{folder} has a cluster that runs') from e
    for name in os.listdir(folder):
        if name != MARK:
            path = f'{folder}/{name}'
            if os.path.isdir(path) and not os.path.islink(path):
                rm(path)
            else:
                os.unlink(path)
    return lock


class Cluster:
    """Made by start(), ended by stop(). Daemons have Ceph's names: mon.a, osd.0, mgr.x."""

    def __init__(self, folder, **options):
        self.folder = os.path.abspath(folder)
        if len(self.folder) > 80:
            raise Failed(f'{self.folder}: too long for sockets in it, expected at most 80 bytes')
        self.conf = f'{self.folder}/ceph.conf'
        self.nr_osds = options.pop('osds', 1)
        self.has_ec = options.pop('ec', False)
        self.has_auth = options.pop('auth', True)
        self.has_mgr = options.pop('mgr', False)
        self.osd_bytes = options.pop('osd_bytes', 4 << 30)
        self.settings = options.pop('settings', ())  # lines for [global]
        # A folder with another release of Ceph, test/ceph/trixie, whose daemons run then.
        self.root = options.pop('root', os.environ.get('PEAL_CEPH_ROOT'))
        if options:
            raise Failed(f'unknown options: {" ".join(options)}')
        if self.has_ec and self.nr_osds < 3:
            raise Failed('an erasure-coded pool (2+1) takes three OSDs')
        self.daemons = {}  # name: Popen
        self.lock = None
        self.handle = None

    def ceph(self, *args):
        """The call of one of Ceph's daemons or tools."""
        if not self.root:
            return args
        return ('unshare', '-m', 'sh', '-c', INSIDE, self.root, self.folder, *args)

    # --- daemons

    def launch(self, name):
        """Starts one that doesn't run."""
        kind, ident = name.split('.')
        with open(f'{self.folder}/log/{name}.out', 'ab') as out:
            self.daemons[name] = subprocess.Popen(
                ['setpriv', '--pdeathsig', 'KILL',
                 *self.ceph(f'ceph-{kind}', '-f', '-i', ident, '-c', self.conf)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def get(self, name):
        if name not in self.daemons:
            raise Failed(f'no {name}, expected one of: {" ".join(self.daemons)}')
        return self.daemons[name]

    def names(self, *which):
        """All daemons for none; `osd` for all OSDs, `osd.1` or `1` for one."""
        if not which or which == ('all',):
            return list(self.daemons)
        found = []
        for w in which:
            w = f'osd.{w}' if str(w).isdigit() else w
            found += [n for n in self.daemons if n.split('.')[0] == w] or [w]
        return found

    def signal(self, how, *which):
        for name in self.names(*which):
            if self.get(name).poll() is None:
                self.daemons[name].send_signal(how)

    def freeze(self, *which):
        """No thread of them runs any more when this is back: a signal alone is not yet that."""
        self.signal(signal.SIGSTOP, *which)
        for name in self.names(*which):
            self.wait_for(f'{name} stopped', lambda p=self.get(name): is_stopped(p.pid))

    def thaw(self, *which):
        self.signal(signal.SIGCONT, *which)

    def kill(self, *which):
        """They are gone, with their locks, when this is back."""
        self.signal(signal.SIGKILL, *which)
        for name in self.names(*which):
            self.get(name).wait(END_S)

    def revive(self, *which):
        """What was killed, or ended by itself, starts again. See revive_osds()."""
        for name in self.names(*which):
            if self.get(name).poll() is not None:
                self.launch(name)

    def revive_osds(self, *which):
        """The same for OSDs; they serve when it is back."""
        def since():
            return {f'osd.{o["osd"]}': (o['up'], o['up_from'])
                    for o in self.command('osd dump')['osds']}
        names = [n for n in self.names(*which) if self.get(n).poll() is not None]
        before = since()
        self.revive(*names)
        self.wait_for('OSDs up', lambda: all(
            now[0] and now[1] > before[n][1] for n, now in since().items() if n in names))

    def move_mon(self):
        """To a port that was free; the conf has it, and who connected before has the old one."""
        with open(self.conf, encoding='ascii') as f:
            text = f.read()
        was = re.search(r'mon_host = \[v2:127.0.0.1:(\d+)\]', text)[1]
        fsid = re.search(r'fsid = (\S+)', text)[1]
        port = free_ports()
        self.kill('mon.a')
        if self.handle is not None:
            self.handle.shutdown()
            self.handle = None
        self.write('ceph.conf', text.replace(f'127.0.0.1:{was}]', f'127.0.0.1:{port}]'))
        self.make_map(fsid, port)
        run(*self.ceph('ceph-mon', '-i', 'a', '-c', self.conf, '--inject-monmap',
                       f'{self.folder}/monmap'))
        self.revive('mon.a')

    def log_tail(self, name):
        text = ''
        for end in ('out', 'log'):
            with contextlib.suppress(OSError), \
                    open(f'{self.folder}/log/{name}.{end}', encoding='utf-8',
                         errors='replace') as f:
                text += ''.join(f.readlines()[-15:])
        return text

    def check_alive(self):
        for name, p in self.daemons.items():
            if p.poll() is not None:
                raise Failed(f'{name} ended with status {p.returncode}\n{self.log_tail(name)}')

    def wait_for(self, what, is_so):
        end = time.monotonic() + START_S
        while not is_so():
            self.check_alive()
            if time.monotonic() > end:
                raise Failed(f'{what}: not within {START_S} s')
            time.sleep(0.05)

    # --- asking

    def rados(self, user='admin', **conf):
        """A connected rados.Rados; who asked for it shuts it down."""
        import rados  # Debian's python3-rados
        r = rados.Rados(conffile=self.conf, rados_id=user, conf={
            'client_mount_timeout': str(START_S), 'rados_osd_op_timeout': str(START_S),
            'rados_mon_op_timeout': str(START_S), **conf})
        r.connect()
        return r

    def is_let_in(self):
        """A monitor that is just made answers before it has its keys: it refuses everybody."""
        import rados
        try:
            self.handle = self.rados()
        except rados.PermissionDeniedError:
            return False
        return True

    def command(self, prefix, **args):
        """What a monitor answers; parsed where it is JSON."""
        if self.handle is None:
            self.handle = self.rados()
        text = json.dumps({'prefix': prefix, 'format': 'json', **args})
        rc, out, err = self.handle.mon_command(text, b'')
        if rc:
            raise Failed(f'{prefix} {args}: {os.strerror(-rc)}: {err}')
        try:
            return json.loads(out)
        except ValueError:
            return out.decode(errors='replace')

    def nr_up(self):
        return self.command('osd stat')['num_up_osds']

    def wait_up(self):
        self.wait_for('OSDs up', lambda: self.nr_up() == self.nr_osds)

    def user(self, name, osd, mon='allow r'):
        """A user with these rights and no others; its key ring lies where the conf says."""
        out = self.command('auth get-or-create', entity=f'client.{name}',
                           caps=['mon', mon, 'osd', osd])
        text = out if isinstance(out, str) else \
            f'[client.{name}]\n\tkey = {out[0]["key"]}\n'
        return self.write(f'client.{name}.keyring', text)

    def pool(self, name, **args):
        self.command('osd pool create', pool=name, pg_num=8, pgp_num=8, **args)
        self.command('osd pool application enable', pool=name, app='peal',
                     yes_i_really_mean_it=True)

    def pool_set(self, name, var, val):
        self.command('osd pool set', pool=name, var=var, val=str(val))

    # --- making

    def write(self, name, text):
        path = f'{self.folder}/{name}'
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w',
                  encoding='ascii') as f:
            f.write(text)
        return path

    def write_conf(self, fsid, port):
        text = CONF.format(
            fsid=fsid, port=port, port_min=port + 1, port_max=port + PORTS - 1,
            auth='cephx' if self.has_auth else 'none', folder=self.folder,
            size=3 if self.nr_osds >= 3 else 1, min_size=2 if self.nr_osds >= 3 else 1,
            osd_bytes=self.osd_bytes)
        self.write('ceph.conf', text.replace('[mon]', '\n'.join([*self.settings, '[mon]']), 1))

    def write_keys(self):
        """All that there are when the monitor is made, so that none has to be asked for."""
        caps = {'mon.': {'mon': 'allow *'},
                'client.admin': {'mon': 'allow *', 'osd': 'allow *', 'mgr': 'allow *'}}
        if self.has_mgr:
            caps['mgr.x'] = {'mon': 'allow profile mgr', 'osd': 'allow *'}
        for i in range(self.nr_osds):
            caps[f'osd.{i}'] = {'mon': 'allow profile osd', 'mgr': 'allow profile osd',
                                'osd': 'allow *'}
        texts = []
        for entity, rights in caps.items():
            path = f'{self.folder}/{entity.rstrip(".")}.keyring'
            args = [x for who, cap in rights.items() for x in ('--cap', who, cap)]
            run('ceph-authtool', '-C', path, '--gen-key', '-n', entity, *args)
            with open(path, encoding='ascii') as f:
                texts.append(f.read())
        return self.write('first.keyring', ''.join(texts))

    def make_map(self, fsid, port):
        run(*self.ceph('monmaptool', '--create', '--clobber', '--fsid', fsid, '--addv', 'a',
                       f'[v2:127.0.0.1:{port}]', f'{self.folder}/monmap'))

    def make_mon(self):
        fsid, port = str(uuid.uuid4()), free_ports()
        self.write_conf(fsid, port)
        keys = self.write_keys()
        self.make_map(fsid, port)
        os.mkdir(f'{self.folder}/mon.a')
        run(*self.ceph('ceph-mon', '--mkfs', '-i', 'a', '-c', self.conf, '--monmap',
                       f'{self.folder}/monmap', '--keyring', keys))
        os.unlink(keys)
        self.launch('mon.a')
        self.wait_for('the monitor has its keys', self.is_let_in)

    def make_osds(self):
        makers = {}
        for i in range(self.nr_osds):
            os.mkdir(f'{self.folder}/osd.{i}')
            u = str(uuid.uuid4())
            self.command('osd new', uuid=u, id=i)
            with open(f'{self.folder}/log/osd.{i}.out', 'ab') as out:
                makers[i] = subprocess.Popen(
                    ['setpriv', '--pdeathsig', 'KILL',
                     *self.ceph('ceph-osd', '--mkfs', '-i', str(i), '-c', self.conf,
                                '--osd-uuid', u)], stdout=out, stderr=out)
        for i, p in makers.items():
            if p.wait(START_S):
                raise Failed(f'osd.{i} can\'t be made: status {p.returncode}\n'
                             + self.log_tail(f'osd.{i}'))
            self.launch(f'osd.{i}')

    def make_pools(self):
        self.pool('kv')
        self.pool('rbd')
        pools = ['kv', 'rbd']
        if self.has_ec:
            self.command('osd erasure-code-profile set', name='peal',
                         profile=['k=2', 'm=1', 'crush-failure-domain=osd'])
            self.pool('ec', pool_type='erasure', erasure_code_profile='peal')
            self.pool_set('ec', 'allow_ec_overwrites', 'true')
            pools.append('ec')
        for pool in pools:  # serves when this is back
            with self.handle.open_ioctx(pool) as io:
                io.write_full('first', b'1')
                io.remove_object('first')

    def make_users(self):
        """peal: what doc/ceph.md says a daemon needs, here of the RADOS namespace `kv` of each
        pool. peal-exec: EXEC besides. peal-rbd: images of the pool rbd."""
        pools = ['kv'] + (['ec'] if self.has_ec else [])
        for name, rights in (('peal', 'rw'), ('peal-exec', 'rwx')):
            self.user(name, ', '.join(f'allow {rights} pool={p} namespace=kv' for p in pools))
        self.user('peal-rbd', 'profile rbd pool=rbd', mon='profile rbd')

    def start(self):
        self.lock = take_folder(self.folder)
        try:
            for name in ('run', 'log'):
                os.mkdir(f'{self.folder}/{name}')
            self.make_mon()
            if self.has_mgr:
                os.mkdir(f'{self.folder}/mgr.x')
                self.launch('mgr.x')
            self.make_osds()
            self.wait_up()
            self.make_pools()
            self.make_users()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        """All of it is gone, the folder too."""
        if self.handle is not None:
            self.handle.shutdown()
            self.handle = None
        self.thaw()
        for name in reversed(self.daemons):
            p = self.daemons[name]
            if p.poll() is None:
                p.kill()
        for p in self.daemons.values():
            try:
                p.wait(END_S)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.daemons = {}
        if self.root:  # where it was mounted
            with contextlib.suppress(OSError):
                os.rmdir(self.root + self.folder)
        if self.lock is not None:
            rm(self.folder)
            os.close(self.lock)
            self.lock = None


@contextlib.contextmanager
def cluster(**options):
    """For a `with`: a cluster in a scratch folder."""
    with tempfile.TemporaryDirectory(prefix='peal-ceph.') as folder:
        c = Cluster(f'{folder}/c', **options)
        c.start()
        try:
            yield c
        finally:
            c.stop()
