#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The control plane of a real peald over its socket: what it answers, to whom, and what it makes of
clients that are wrong, slow, many or not allowed.

usage: PEALD=... PEAL_CLI=... python3 -m pytest ctl_rpc.py
"""

import json
import os
import pwd
import socket
import stat
import subprocess
import tempfile
import threading

import peer
import pytest

PEALD = os.environ['PEALD']
PEAL = os.environ['PEAL_CLI']


class Client:
    def __init__(self, folder):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(f'{folder}/rpc')
        self.file = self.sock.makefile('rb')

    def raw(self, data):
        try:
            self.sock.sendall(data)
        except BrokenPipeError:
            pass  # closed by the daemon, which has said why
        return self.line()

    def line(self):
        return json.loads(self.file.readline() or 'null')

    def reply(self, method, *args, **params):
        msg = {'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params or list(args)}
        return self.raw(json.dumps(msg).encode())

    def __call__(self, method, *args, **params):
        reply = self.reply(method, *args, **params)
        assert 'result' in reply, reply
        return reply['result']

    def error(self, method, *args, **params):
        return self.reply(method, *args, **params)['error']

    def close(self):
        self.file.close()
        self.sock.close()


@pytest.fixture(name='d', scope='module')
def fixture_daemon():
    with peer.daemon(PEALD, '--dram', '64M', '--ns', 'kv=16M', '--ns', 'rw=16M,rw',
                     '--reactors', '2') as d:
        yield d


@pytest.fixture(name='rpc')
def fixture_rpc(d):
    client = Client(d.folder)
    yield client
    client.close()


def cli(d, *args, **kw):
    return subprocess.run([PEAL, '-u', d.uri, *args], capture_output=True, timeout=60, check=False,
                          **kw)


def put(d, key, value, ns=1):
    done = cli(d, '-n', str(ns), 'put', key, '-', input=value)
    assert done.returncode == 0, done.stderr


def test_who_and_what(d, rpc):
    info = rpc('daemon.info')
    assert info['pid'] == d.pid and info['reactors'] == 2
    methods = {m['name']: m for m in rpc('rpc.methods')}
    assert methods['ns.create']['params'][0]['needed'] is True
    conf = rpc('daemon.config')
    assert [n['name'] for n in conf['namespaces']] == ['kv', 'rw']
    assert conf['transports'][0]['vfu']['dir'] == d.folder
    st = os.stat(f'{d.folder}/rpc')
    assert stat.S_IMODE(st.st_mode) == 0o600 and st.st_uid == os.geteuid()


def test_log_level(rpc):
    assert rpc('log.level') == {'level': 'info'}
    assert rpc('log.level', level='err') == {'level': 'err'}
    assert rpc('log.level', level='info') == {'level': 'info'}
    assert 'err, warn, info, debug' in rpc.error('log.level', level='loud')['message']


def test_namespaces(rpc):
    assert [n['name'] for n in rpc('ns.list')] == ['kv', 'rw']
    nsid = rpc('ns.create', name='new', size='16M', immutable=False)['nsid']
    assert rpc.error('ns.create', name='new', size='16M')['code'] == -32002
    for name in '3', '0', 'x' * 64, 'a\n', '':
        assert rpc.error('ns.create', name=name, size='4M')['code'] == -32602, name
    assert 'digits alone' in rpc.error('ns.create', name='3', size='4M')['message']
    assert rpc.error('ns.create', name='large', size='17M')['code'] == -32003
    new = {n['name']: n for n in rpc('ns.list')}['new']
    assert new['nsid'] == nsid and new['immutable'] is False
    rpc('ns.resize', ns='new', size='8M')
    assert {n['name']: n for n in rpc('ns.list')}['new']['capacity_bytes'] <= 8 << 20
    rpc('ns.flush', ns='new')
    rpc('ns.delete', ns=nsid)
    assert rpc.error('ns.delete', ns=nsid)['code'] == -32001


@pytest.fixture(name='b', scope='module')
def fixture_block_daemon():
    with tempfile.TemporaryDirectory() as folder, \
         peer.daemon(PEALD, '--dram', '64M', '--ns', 'kv=16M', '--reactors', '2', '--block',
                     f'{folder}/disk,size=4M') as b:
        b.disk = f'{folder}/disk'
        yield b


def test_block_namespaces(b):
    """They are shown, and what can't be done with them is said."""
    client = Client(b.folder)
    shown = {n['nsid']: n for n in client('ns.list')}
    assert shown[1]['kind'] == 'kv' and shown[2]['kind'] == 'block', shown
    assert shown[2]['capacity_bytes'] == 4 << 20
    for method, args in [('ns.delete', {}), ('ns.resize', {'size': '8M'}), ('ns.flush', {}),
                         ('key.where', {'key': 'a'}), ('key.purge', {}), ('key.usage', {}),
                         ('class.list', {})]:
        for ns in 2, b.disk:
            error = client.error(method, ns=ns, **args)
            assert error['code'] == -32602, (method, error)
            assert f"ns: '{ns}' is a block namespace" in error['message'], (method, error)
            assert 'expected a key-value one' in error['message'], (method, error)
    error = client.error('ns.resize', ns='kv', size='1M')
    assert 'size: 1048576 is too little, expected more than 1 MiB' in error['message'], error
    client.close()
    assert '    2     4.0 MiB           -  block' in cli(b, 'ns').stdout.decode()
    lines = cli(b, '--json', 'ns', 'list').stdout.decode().splitlines()
    assert [json.loads(x)['kind'] for x in lines] == ['kv', 'block']
    done = cli(b, 'ns', 'delete', '2')
    assert done.returncode == 3 and b'namespace 2 is a block namespace' in done.stderr, done
    assert b'block' in cli(b, 'ns').stdout


def test_cli_types(d, rpc):
    """A text that looks like something else is a text where the method wants one."""
    for key in '1234', 'true', '{}', '"a"', 'null', '0x1234', '1e3':
        done = cli(d, '--json', 'rpc', 'key.where', 'ns=kv', f'key={key}')
        assert done.returncode == 0, (key, done)
        done = cli(d, '--json', 'rpc', 'key.where', 'ns=1', f'key={key}')
        assert done.returncode == 0, (key, done)
    done = cli(d, 'rpc', 'ns.create', 'name=true', 'size=4194304', 'immutable=false')
    assert done.returncode == 0, done
    assert {n['name'] for n in rpc('ns.list')} == {'kv', 'rw', 'true'}
    assert cli(d, 'rpc', 'ns.delete', 'ns=true').returncode == 0
    for wrong in ('ns.create name=3 size=4M', 'ns.create name=x size=4M immutable=perhaps',
                  'key.purge ns=kv class=many', 'key.purge ns=kv clas=1', 'key.purge ns kv',
                  'nobody x=1'):
        assert cli(d, 'rpc', *wrong.split()).returncode == 2, wrong


def test_cli_long_path(d):
    for args in ['rpc', 'daemon.info'], ['top', '--count', '1'], ['class']:
        done = cli(d, *args, env=dict(os.environ, PEAL_RPC='/' + 'x' * 200))
        assert done.returncode == 3, done
        assert b"xxx...: too long, expected a socket's path of at most 107 bytes" in done.stderr


def test_keys(d, rpc):
    put(d, 'one', b'x' * 1000)
    where = rpc('key.where', ns='kv', key='one')
    assert where['found'] and where['tiers'][0]['name'] == 'dram'
    assert where['tiers'][0]['value_bytes'] == 1000
    assert rpc('key.where', ns='kv', key='0xff') == {'found': False, 'tiers': []}
    usage = rpc('key.usage', ns='kv')
    assert usage['keys'] == 1 and usage['classes'][0]['value_bytes'] == 1000
    assert rpc('key.purge', ns='kv', **{'class': 9}) == {'seen': 1, 'deleted': 0}
    assert cli(d, 'get', 'one').stdout == b'x' * 1000
    assert rpc('key.purge', ns='kv') == {'seen': 1, 'deleted': 1}
    assert cli(d, 'get', 'one').returncode == 1
    kv = rpc('stats')['namespaces'][0]
    assert kv['name'] == 'kv' and kv['writes'] == 1 and kv['tiers'][0]['keys'] == 0


def test_clients(d, rpc):
    """Who is attached, told by the kernel, and what each has done."""
    before = rpc('client.list')
    with subprocess.Popen([PEAL, '-u', d.uri, 'bench', '--seconds', '600', '--size', '4K',
                           '--keys', '50'], stdout=subprocess.DEVNULL) as p:
        mine = []
        while not mine or mine[0]['read_bytes'] < 100 * 4096:
            mine = [c for c in rpc('client.list') if c['pid'] == p.pid]
        p.terminate()
    one = mine[0]
    assert one['transport'] == 'vfu' and one['uid'] == os.geteuid() and one['controller'] > 0
    assert one['written_bytes'] >= 50 * 4096 and one['queues'] >= 1, one
    assert one['commands'] >= one['read_bytes'] // 4096 + 50 and one['seconds'] > 0
    assert one['leases'] == 0 and one['recorded'] is False
    while len(rpc('client.list')) > len(before):
        pass
    times = {t['name']: t for t in rpc('stats')['namespaces'][0]['times']}
    get = times['Retrieve']
    assert get['samples'] == sum(get['buckets']) > 0 and get['seconds'] > 0
    assert 0 < get['p50_ns'] <= get['p99_ns'], get
    # The first after a rest is timed: one put is one sample.
    puts = times['Store']['samples']
    put(d, 'one-more', b'x')
    times = {t['name']: t for t in rpc('stats')['namespaces'][0]['times']}
    assert times['Store']['samples'] >= puts
    rpc('key.purge', ns='kv')


def test_classes(tmp_path):
    """Of the configuration, and of what is stored."""
    conf = tmp_path / 'peald.yaml'
    conf.write_text('namespaces:\n- name: kv\n  size: 16M\n  classes:\n'
                    '  - {id: 7, name: llama, model: llama-8b, dtype: bf16}\n')
    with peer.daemon(PEALD, '--config', str(conf)) as d:
        client = Client(d.folder)
        assert client('class.list', ns='kv') == client('class.list', ns=1) == [
            {'class': 7, 'name': 'llama', 'model': 'llama-8b', 'layout': '', 'dtype': 'bf16',
             'codec': 'raw', 'registered': True, 'memory_keys': 0, 'memory_bytes': 0}]
        assert client.error('class.list', ns='other')['code'] == -32001
        assert client('key.purge', ns='kv', **{'class': 7}) == {'seen': 0, 'deleted': 0}
        client.close()


def test_classes_change(tmp_path):
    """While the daemon runs: what is taken and refused, counted, and purged by class."""
    with peer.daemon(PEALD, '--dram', '32M', '--ns', 'kv=16M', '--reactors', '2') as d:
        client = Client(d.folder)

        def stored(key, cls):
            done = cli(d, 'put', key, '--class', str(cls), '-', input=b'x' * 1000)
            return done.returncode == 0 or done.stderr.decode()

        assert client('class.list', ns='kv') == []
        assert client.error('class.list', ns='nope')['code'] == -32001
        first, second = (client('ns.create', name=n, size='4M')['nsid'] for n in ('x', 'y'))
        client('ns.delete', ns='x')
        client('class.add', ns='y', **{'class': 5})
        assert client('class.list', ns=second) == client('class.list', ns='y') != []
        assert client.error('class.list', ns=first)['code'] == -32001
        client('ns.delete', ns='y')
        assert stored('any', 9) is True  # no classes: any number
        assert client('class.add', ns='kv', model='m', dtype='bf16', **{'class': 7}) == {}
        assert client.error('class.add', ns='kv', **{'class': 7})['code'] == -32002
        for wrong in (0, 65536, 'x', None):
            assert client.error('class.add', ns='kv', **{'class': wrong})['code'] == -32602
        assert 'Class Not Registered' in stored('nine', 9)
        assert cli(d, 'get', 'nine').returncode == 1
        for i in range(20):
            assert stored(f'seven-{i}', 7) is True
            put(d, f'none-{i}', b'y')
        assert client('class.list', ns=1) == [
            {'class': 7, 'name': 'class-7', 'model': 'm', 'layout': '', 'dtype': 'bf16',
             'codec': 'raw', 'registered': True, 'memory_keys': 20, 'memory_bytes': 20000},
            {'class': 9, 'registered': False, 'memory_keys': 1, 'memory_bytes': 1000}]
        usage = {c['class']: c for c in client('key.usage', ns='kv')['classes']}
        assert usage[7]['keys'] == 20 and usage[7]['model'] == 'm'
        assert usage[0]['keys'] == 20 and usage[9]['value_bytes'] == 1000
        kv = client('stats')['namespaces'][0]
        assert [(c['class'], c['memory_keys']) for c in kv['classes']] == [(7, 20), (9, 1)]
        assert client('key.purge', ns='kv', **{'class': 7})['deleted'] == 20
        assert client('class.list', ns='kv')[0]['memory_keys'] == 0
        assert client('ns.flush', ns='kv') == {}
        assert cli(d, 'get', 'none-3').stdout == b'y'
        assert client('class.remove', ns='kv', **{'class': 7}) == {}
        assert client.error('class.remove', ns='kv', **{'class': 7})['code'] == -32001
        assert stored('eight', 8) is True
        client.close()


def test_class_cli():
    with peer.daemon(PEALD, '--dram', '32M', '--ns', 'kv=16M', '--ns', 'two=8M') as d:
        assert cli(d, 'class', 'add', '7', 'name=llama', 'model=llama 8b').returncode == 0
        assert cli(d, '-n', '2', 'class', 'add', '8').returncode == 0
        assert cli(d, 'class', 'add', '7').returncode == 3
        assert cli(d, 'put', 'k', '--class', '7', '--value', 'x').returncode == 0
        assert cli(d, 'put', 'k', '--class', '8', '--value', 'x').returncode == 3
        lines = cli(d, 'class').stdout.decode().splitlines()
        assert len(lines) == 2 and lines[1].split()[:4] == ['7', '1', '1', 'B'], lines
        assert 'llama 8b' in lines[1]
        done = cli(d, '--json', '-n', '2', 'class', 'list')
        assert [json.loads(x)['class'] for x in done.stdout.splitlines()] == [8]
        assert cli(d, 'class', 'purge', '7').stdout == b'1 deleted\n'
        assert cli(d, 'get', 'k').returncode == 1
        assert cli(d, 'class', 'remove', '7').returncode == 0
        assert cli(d, 'class', 'remove', '7').returncode == 1
        assert cli(d, '-n', '9', 'class').returncode == 1
        for wrong in (['add'], ['add', '0'], ['add', 'x'], ['add', '1', 'colour=red'], ['remove'],
                      ['purge', '1', '2'], ['burn', '1'], ['list', '1']):
            done = cli(d, 'class', *wrong)
            assert done.returncode == 2 and b'expected' in done.stderr, (wrong, done)
        done = cli(d, 'class', env=dict(os.environ, PEAL_RPC='/nowhere/rpc'))
        assert done.returncode == 3 and b'/nowhere/rpc: No such file' in done.stderr


def test_bad_json(d):
    for text, code in [(b'nonsense\n', -32700), (b'{"jsonrpc": }', -32700),
                       (b'{"a":1,"a":1}', -32700),
                       (b'{"\xff": 1}', -32700), (b'{]', -32700)]:
        client = Client(d.folder)
        assert client.raw(text)['error']['code'] == code, text
        assert client.line() is None  # closed: where the next one begins would be a guess
        client.close()


def test_bad_requests(rpc):
    for text, code in [(b'{}', -32600), (b'[]', -32600), (b'{"jsonrpc":"2.0","id":1}', -32600),
                       (b'{"jsonrpc":"2.0","id":1,"method":"nobody"}', -32601),
                       (b'{"jsonrpc":"2.0","id":1,"method":"stats","params":{"x":1}}', -32602),
                       (b'{"jsonrpc":"2.0","id":1,"method":"ns.delete"}', -32602)]:
        assert rpc.raw(text)['error']['code'] == code, text
    rpc('daemon.info')


def test_batches_and_notifications(rpc):
    call = {'jsonrpc': '2.0', 'id': 5, 'method': 'log.level'}
    note = {'jsonrpc': '2.0', 'method': 'log.level'}
    replies = rpc.raw(json.dumps([call, note, {**call, 'id': 'x', 'method': 'stats'}, 7]).encode())
    assert [r['id'] for r in replies] == [5, 'x', None]
    # A notification has no answer: the next line is that of the call behind it.
    assert rpc.raw(json.dumps(note).encode() + json.dumps(call).encode())['id'] == 5
    many = json.dumps([note] * 65).encode()
    assert rpc.raw(many)['error']['code'] == -32600


def test_huge(d):
    client = Client(d.folder)
    try:
        client.sock.sendall(b'{"x":"' + b'y' * (2 << 20))
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert client.line()['error']['code'] == -32600
    client.close()
    client = Client(d.folder)
    assert client.raw(b'[' * 65)['error']['code'] == -32600
    client.close()


def test_slow_and_many(d):
    """Sixty that say half a sentence or don't listen; one that asks meanwhile."""
    call = b'{"jsonrpc":"2.0","id":1,"method":"rpc.methods"}'
    crowd = [Client(d.folder) for _ in range(60)]
    for i, client in enumerate(crowd):
        if i % 2:
            client.sock.sendall(call[:20])
            continue
        client.sock.setblocking(False)
        try:
            while True:  # until neither side has room for more
                client.sock.send(call)
        except BlockingIOError:
            pass
    client = Client(d.folder)
    for _ in range(50):
        assert client('daemon.info')['pid'] == d.pid
    more = [Client(d.folder) for _ in range(20)]
    refused = [c for c in more if c.raw(call).get('error', {}).get('code') == -32004]
    assert 16 <= len(refused) <= 20, len(refused)
    for c in crowd + more + [client]:
        c.close()


def test_at_once(d):
    """Namespaces made and ended, walked and counted from several threads."""
    failed = []

    def work(i):
        client = Client(d.folder)
        try:
            for _ in range(20):
                nsid = client('ns.create', name=f'thread-{i}', size='4M')['nsid']
                client('stats')
                client('key.usage', ns=nsid)
                client('key.purge', ns='rw')
                client('ns.delete', ns=nsid)
        except (AssertionError, OSError) as e:
            failed.append(e)
        client.close()

    threads = [threading.Thread(target=work, args=[i]) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed
    client = Client(d.folder)
    assert len(client('ns.list')) == 2
    client.close()


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become somebody else')
def test_wrong_user(d):
    nobody = pwd.getpwnam('nobody')
    ask = ('import socket,sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);'
           'print(s.recv(1000).decode())')

    def run():
        return subprocess.run(['python3', '-c', ask, f'{d.folder}/rpc'], user=nobody.pw_uid,
                              group=nobody.pw_gid, extra_groups=[], capture_output=True, text=True,
                              timeout=60, check=False)

    os.chmod(d.folder, 0o755)
    assert 'PermissionError' in run().stderr  # the file's mode
    os.chmod(f'{d.folder}/rpc', 0o666)
    try:
        assert '-32006' in run().stdout  # the kernel's word
    finally:
        os.chmod(f'{d.folder}/rpc', 0o600)


def test_cli(d):
    done = cli(d, 'rpc', 'daemon.info')
    assert done.returncode == 0 and json.loads(done.stdout)['pid'] == d.pid
    done = cli(d, '--json', 'rpc', 'ns.create', 'name=cli', 'size=4M', 'immutable=false')
    assert done.returncode == 0, done.stderr
    nsid = json.loads(done.stdout)['nsid']
    assert cli(d, 'rpc', 'ns.delete', f'[{nsid}]').returncode == 0
    assert cli(d, 'rpc', 'ns.delete', f'ns={nsid}').returncode == 1
    assert cli(d, 'rpc', 'nobody').returncode == 2
    assert cli(d, 'rpc', 'ns.delete').returncode == 2
    assert cli(d, 'rpc', 'ns.delete', '{').returncode == 2
    assert cli(d, 'rpc').returncode == 2
    env = dict(os.environ, PEAL_RPC='/nowhere/rpc')
    done = cli(d, 'rpc', 'daemon.info', env=env)
    assert done.returncode == 3 and b'/nowhere/rpc: No such file' in done.stderr


def test_stop_meanwhile():
    """The daemon is stopped while questions are under way: it ends well, and they are over."""
    for _ in range(5):
        with peer.daemon(PEALD, '--dram', '16M', '--reactors', '2') as d:
            clients = [Client(d.folder) for _ in range(8)]
            for c in clients:
                c.sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"stats"}' * 50)
        for c in clients:
            c.close()
        assert not os.path.exists(f'{d.folder}/rpc')


def test_none():
    with peer.daemon(PEALD, '--dram', '4M', '--rpc', 'none') as d:
        assert os.listdir(d.folder) == ['cntrl']


def test_quiesce():
    with peer.daemon(PEALD, '--dram', '32M', '--reactors', '2') as d:
        put(d, 'key', b'x')
        client = Client(d.folder)
        assert client('quiesce', seconds=600)['drained'] is True
        done = cli(d, '-t', '300', 'get', 'key')
        assert done.returncode == 3, done  # the client's deadline, no hang
        client('daemon.info')
        client('stats')
        client('resume')
        assert cli(d, 'get', 'key').stdout == b'x'
        # One that nobody ends, ends by itself.
        client('quiesce', seconds=1)
        assert cli(d, '-t', '60000', 'get', 'key').stdout == b'x'
        client('quiesce', seconds=600)
        client.close()
    # And a daemon that is held stops.
