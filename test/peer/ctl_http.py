#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/metrics and /healthz of a real peald: what promtool says, and what it makes of clients that are
wrong, slow or many.

usage: PEALD=... PEAL_CLI=... python3 -m pytest ctl_http.py
"""

import errno
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import peer
import pytest

PEALD = os.environ['PEALD']
PEAL = os.environ['PEAL_CLI']


class Web(peer.Daemon):
    """A daemon that listens on a free port, which its log names."""

    def __init__(self, folder):
        super().__init__(PEALD, folder, '--dram', '64M', '--ns', 'kv=16M', '--ns', 'q"\\=16M,rw',
                         '--reactors', '2', '--http', '0')
        self.port = int(re.search(r'on 127\.0\.0\.1 port (\d+)', self.log).group(1))

    def get(self, path, method='GET', data=None):
        url = f'http://127.0.0.1:{self.port}{path}'
        req = urllib.request.Request(url, method=method, data=data)
        try:
            with urllib.request.urlopen(req, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def connect(self):
        s = socket.create_connection(('127.0.0.1', self.port), timeout=60)
        return s

    def value(self, family, **labels):
        """The sum over what has these labels; None: there is none."""
        found = []
        for line in self.get('/metrics')[1].splitlines():
            m = re.fullmatch(r'(\w+)(?:\{(.*)\})? (\S+)', line)
            if m and m.group(1) == family and all(f'{k}="{v}"' in (m.group(2) or '')
                                                for k, v in labels.items()):
                found.append(float(m.group(3)))
        return sum(found) if found else None


@pytest.fixture(name='d', scope='module')
def fixture_daemon(tmp_path_factory):
    d = Web(str(tmp_path_factory.mktemp('http')))
    yield d
    d.stop()
    assert d.process.returncode == 0


def cli(d, *args, **kw):
    return subprocess.run([PEAL, '-u', d.uri, *args], capture_output=True, timeout=60, check=False,
                          **kw)


def test_promtool(d):
    cli(d, 'put', 'key', '-', input=b'x' * 5000)
    cli(d, 'get', 'key')
    cli(d, 'get', 'nobody')
    status, text = d.get('/metrics')
    assert status == 200
    # Debian's package prometheus has it; script/bootstrap installs it.
    done = subprocess.run(['promtool', 'check', 'metrics'], input=text, text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_counts(d):
    done = d.value('peal_commands_total', name='Store', outcome='done') or 0
    missed = d.value('peal_commands_total', set='kv', outcome='missed') or 0
    hits = d.value('peal_namespace_hits_total', namespace='kv')
    for i in range(3):
        assert cli(d, 'put', f'count-{i}', '-', input=b'y' * 1000).returncode == 0
        assert cli(d, 'get', f'count-{i}').stdout == b'y' * 1000
        assert cli(d, 'get', f'absent-{i}').returncode == 1
    assert d.value('peal_commands_total', name='Store', outcome='done') == done + 3
    assert d.value('peal_commands_total', set='kv', outcome='missed') >= missed + 3
    assert d.value('peal_namespace_hits_total', namespace='kv') == hits + 3
    assert d.value('peal_command_statuses_total', status='087h') >= 3
    assert d.value('peal_tier_keys', namespace='kv', tier='0-dram') >= 3


def test_health(d):
    assert d.get('/healthz') == (200, 'ok\n')
    assert d.get('/healthz', method='HEAD') == (200, '')


def test_wrong(d):
    assert d.get('/')[0] == 404
    assert d.get('/metrics/../healthz')[0] == 404
    for method in 'POST', 'PUT', 'DELETE':
        assert d.get('/metrics', method=method, data=b'x' * 100)[0] == 405
    for text in (b'nonsense\r\n\r\n', b'GET\r\n\r\n', b'GET /metrics\r\n\r\n', b'\0' * 100,
                 b'GET /metrics HTTP/1.1\r\n' + b'X: ' + b'y' * 100000 + b'\r\n\r\n',
                 b'GET /' + b'z' * 100000 + b' HTTP/1.1\r\n\r\n',
                 b'GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n',
                 b'GET /metrics HTTP/9.9\r\nHost: a\r\n\r\n'):
        with d.connect() as s:
            try:
                s.sendall(text)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError as e:  # it had closed before all was said, or before we had closed
                assert e.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN), e
        assert d.get('/healthz')[0] == 200, text


def answer(s):
    """One answer: its head, and its body."""
    head = b''
    while b'\r\n\r\n' not in head:
        more = s.recv(65536)
        assert more, head
        head += more
    head, body = head.split(b'\r\n\r\n', 1)
    length = int(re.search(rb'(?i)content-length: (\d+)', head).group(1))
    while len(body) < length:
        body += s.recv(65536)
    return head, body


def ask(d, *lines):
    with d.connect() as s:
        s.sendall('\r\n'.join(['GET /healthz HTTP/1.1', *lines, '', '']).encode())
        return int(answer(s)[0].split()[1])


def test_host(d):
    """A page whose name was made to point here (DNS rebinding) reads nothing."""
    for good in ('localhost', 'LOCALHOST:9', f'127.0.0.1:{d.port}', '127.1.2.3', '[::1]',
                 '[::1]:80', '10.0.0.1'):
        assert ask(d, f'Host: {good}') == 200, good
    for bad in ('evil.example', f'evil.example:{d.port}', 'localhost.evil.example', '127.0.0.1.x',
                '[::1', '[::1]x', '127.0.0.1:x', 'a' * 500, ''):
        assert ask(d, f'Host: {bad}') == 403, bad


def test_headers_too_large(d):
    """Told, and at once: a header is read in steps, and none of them waits for the tick."""
    for size in 100, 3000, 9000, 12000:
        assert ask(d, 'Host: localhost', 'X: ' + 'a' * size) == 200, size
    for size in 20000, 40000:
        with d.connect() as s:
            s.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ' + b'a' * size +
                      b'\r\n\r\n')
            assert b' 431 ' in answer(s)[0], size


def is_open(s):
    s.setblocking(False)
    try:
        return bool(s.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_silent(d):
    """A crowd that says nothing, or half a request, keeps nobody from asking."""
    for text in b'', b'GET /healthz HTTP/1.1\r\nX: ':
        crowd = [d.connect() for _ in range(60)]
        for s in crowd:
            s.sendall(text)
        assert d.get('/healthz') == (200, 'ok\n')
        # Which didn't wait until they were closed for their silence.
        assert sum(is_open(s) for s in crowd) >= 40
        for s in crowd:
            s.close()
        crowd = [d.connect() for _ in range(200)]
        assert d.get('/healthz') == (200, 'ok\n')
        for s in crowd:
            s.close()


def test_slow_and_many(d):
    """All connections are taken by peers that send a byte now and then: they are closed."""
    crowd = [d.connect() for _ in range(40)]
    end = time.monotonic() + 60
    while crowd and time.monotonic() < end:
        for s in list(crowd):
            try:
                s.sendall(b'G')
                s.setblocking(False)
                if not s.recv(100):
                    raise ConnectionResetError
            except BlockingIOError:
                s.setblocking(True)
            except OSError:
                s.close()
                crowd.remove(s)
        # The time between two bytes of a slow peer, not a wait for the daemon.
        time.sleep(0.2)
    assert not crowd, f'{len(crowd)} are still open'
    assert d.get('/healthz')[0] == 200


def test_with_rpc(d):
    """What the control plane does elsewhere is seen here."""
    before = d.value('peal_build_info')
    assert before == 1
    assert cli(d, 'rpc', 'ns.create', 'name=more', 'size=8M').returncode == 0
    assert d.value('peal_namespace_capacity_bytes', namespace='more') > 0
    assert cli(d, 'rpc', 'ns.delete', 'ns=more').returncode == 0
    assert d.value('peal_namespace_capacity_bytes', namespace='more') is None


def test_port_taken(d):
    done = subprocess.run([PEALD, '--dir', d.folder + '/x', '--dram', '4M', '--http', str(d.port)],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and f'port {d.port}: Address already in use' in done.stderr
    shutil.rmtree(d.folder + '/x')


def test_stop_meanwhile(tmp_path):
    """Stopped with requests on their way, in every state: it ends well."""
    for i in range(10):
        web = Web(str(tmp_path))
        crowd = [web.connect() for _ in range(i)]
        for j, s in enumerate(crowd):
            s.sendall(b'GET /metrics HTTP/1.1\r\nHost: a\r\n' + (b'\r\n' if j % 3 else b''))
        web.stop()
        assert web.process.returncode == 0, web.log
        for s in crowd:
            s.close()


def test_loopback(d):
    """Nobody asked for more than this machine."""
    text = subprocess.run(['cat', f'/proc/{d.pid}/net/tcp'], capture_output=True, text=True,
                          check=True).stdout
    mine = [x.split()[1] for x in text.splitlines() if x.split()[1].endswith(f':{d.port:04X}')]
    assert '0100007F:%04X' % d.port in mine
    assert not any(x.startswith('00000000:') for x in mine)
