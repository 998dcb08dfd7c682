#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peal doctor, top and stat beside a real peald, and without one.

usage: PEALD=... PEAL_CLI=... python3 -m pytest ctl_cli.py
"""

import fcntl
import json
import os
import pty
import pwd
import select
import signal
import socket
import struct
import subprocess
import termios

import peer
import pytest

PEALD = os.environ['PEALD']
PEAL = os.environ['PEAL_CLI']
CHECKS = ['kernel', 'memory', 'hugepages', 'memlock', 'files', 'io_uring', 'memfd', 'socket',
          'daemon', 'ssd', 'gpu', 'cluster']


@pytest.fixture(name='d', scope='module')
def fixture_daemon():
    with peer.daemon(PEALD, '--dram', '64M', '--ns', 'kv=32M', '--ns', 'other=16M') as d:
        yield d


def cli(uri, *args, **kw):
    return subprocess.run([PEAL, '-u', uri, *args], capture_output=True, text=True, timeout=60,
                          check=False, **kw)


def test_doctor(d):
    done = cli(d.uri, '--json', 'doctor')
    lines = [json.loads(x) for x in done.stdout.splitlines()]
    assert [x['check'] for x in lines] == CHECKS
    state = {x['check']: x for x in lines}
    assert state['socket']['state'] == 'good' and state['daemon']['state'] == 'good', lines
    assert state['io_uring']['state'] == 'good' and state['memfd']['state'] == 'good', lines
    # Whatever isn't good says what to do, or why that's fine.
    assert all(x['text'] for x in lines)
    assert done.returncode == (3 if any(x['state'] == 'bad' for x in lines) else 0)


def test_doctor_without(tmp_path):
    done = cli(f'vfu:{tmp_path}/cntrl', 'doctor')
    assert done.returncode == 3
    bad = {x.split()[1]: x for x in done.stdout.splitlines() if x.startswith('BAD')}
    assert f'{tmp_path}/cntrl: ENOENT; start peald' in bad['socket']
    assert f'{tmp_path}/rpc: ENOENT; start peald, unless it has --rpc none' in bad['daemon']
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f'{tmp_path}/rpc')  # and nobody listens
    done = cli(f'vfu:{tmp_path}/cntrl', 'doctor')
    assert f'{tmp_path}/rpc: ECONNREFUSED; nobody is behind it, start peald' in done.stdout
    env = dict(os.environ, PEAL_RPC='/' + 'x' * 200)
    done = cli(f'vfu:{tmp_path}/cntrl', 'doctor', env=env)
    assert 'ENAMETOOLONG; too long, choose a shorter --dir' in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become somebody else')
def test_doctor_other_user(d):
    nobody = pwd.getpwnam('nobody')
    os.chmod(d.folder, 0o755)
    done = cli(d.uri, 'doctor', user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
    assert "rpc: EACCES; not permitted: become root or the daemon's own user" in done.stdout


def test_top_lines(d):
    done = cli(d.uri, 'top', '--count', '2', '--interval', '0.1')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(' kv ' in x for x in lines) == 2 and sum(' dram ' in x for x in lines) == 4, lines
    assert '\x1b' not in done.stdout
    done = cli('vfu:/nowhere/cntrl', 'top', '--count', '1')
    assert done.returncode == 3 and '/nowhere/rpc: No such file' in done.stderr
    assert cli(d.uri, 'top', '--interval', 'often').returncode == 2


def size(fd, lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))


def test_top_screen(d):
    """On a terminal: a screen, of 80 columns, which tells what doesn't fit, hears of another size,
    and which q ends and puts back."""
    master, slave = pty.openpty()
    size(slave, 5, 80)
    env = {k: v for k, v in os.environ.items() if k not in ('LINES', 'COLUMNS')}
    with subprocess.Popen([PEAL, '-u', d.uri, 'top'], stdin=slave, stdout=slave,
                          stderr=subprocess.PIPE, env=dict(env, TERM='xterm')) as p:
        seen = b''

        def until(text):
            nonlocal seen
            while text not in seen:
                assert select.select([master], [], [], 60)[0], seen
                seen += os.read(master, 65536)

        until(b'2 more lines')
        assert b'other' not in seen and b'p99<' in seen
        size(slave, 24, 80)
        p.send_signal(signal.SIGWINCH)
        until(b'other')
        os.close(slave)
        os.write(master, b'q')
        try:
            while True:
                seen += os.read(master, 65536)
        except OSError:
            pass  # the terminal has no other end any more
        assert p.wait(60) == 0, p.stderr.read()
    os.close(master)
    assert b'\x1b[?1049h' in seen and b'\x1b[?1049l' in seen


def test_top_narrow(d):
    done = cli(d.uri, 'top', '--count', '2', '--interval', '0.1')
    assert max(len(x) for x in done.stdout.splitlines()) <= 80


def test_top_daemon_gone():
    """It ends while it is watched: a line that says so."""
    with peer.daemon(PEALD, '--dram', '16M') as d:
        p = subprocess.Popen([PEAL, '-u', d.uri, 'top', '--interval', '0.1'], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.readline()
    out, err = p.communicate(timeout=60)
    assert p.returncode == 3 and 'peal top: ' in err, (out, err)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become somebody else')
def test_wrong_user(d):
    """Somebody else's daemon: who may ask is said, not only that it failed."""
    nobody = pwd.getpwnam('nobody')
    os.chmod(d.folder, 0o755)
    who = {'user': nobody.pw_uid, 'group': nobody.pw_gid, 'extra_groups': []}
    for cmd in (['top', '--count', '1'], ['class'], ['rpc', 'stats']):
        done = cli(d.uri, *cmd, **who)
        assert done.returncode == 3, done
        assert 'Permission denied: root and the user that peald runs as may ask' in done.stderr
    done = cli(d.uri, 'doctor', **who)
    assert done.returncode == 3 and "become root or the daemon's own user" in done.stdout, done


@pytest.mark.parametrize('wrong', [
    ['top', '--interval', '0'], ['top', '--interval', 'nan'], ['top', '--count', '0'],
    ['top', '--count', '-1'], ['top', 'now'], ['top', '--colour'], ['doctor', 'please'],
    ['doctor', '--fix'], ['record'], ['record', '0'], ['record', 'x'], ['record', '1', '2'],
    ['put', 'k', '--class', '0', '--value', 'x'], ['nothing'], []])
def test_wrong_arguments(d, wrong):
    """Status 2 and a line: what was expected, or argp's for an option that it doesn't know."""
    done = cli(d.uri, *wrong)
    assert done.returncode == 2 and done.stderr, (wrong, done)
    words = ('expected', 'unrecognized', 'Too many arguments')
    assert any(x in done.stderr for x in words), (wrong, done.stderr)
    assert done.stdout == '', done


def test_stat(d):
    subprocess.run([PEAL, '-u', d.uri, 'put', 'key', '-'], input=b'x' * 100, check=True, timeout=60)
    done = cli(d.uri, 'stat')
    assert done.returncode == 0 and 'tier 0      dram: ' in done.stdout, done
    # Without a control plane: what the controller itself says.
    env = dict(os.environ, PEAL_RPC='/nowhere/rpc')
    done = cli(d.uri, 'stat', env=env)
    assert done.returncode == 0 and 'capacity' in done.stdout and 'tier' not in done.stdout, done
