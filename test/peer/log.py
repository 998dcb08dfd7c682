#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a client can do to the daemon and to others by way of the daemon's log.

usage: log.py PEALD PEAL
"""

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

PEALD, PEAL = sys.argv[1:]
# vfio-user VERSION (command 1) for version 9.9, which nobody has: refused with a line in the log.
WRONG = struct.pack('<HHIII', 1, 1, 20, 0, 0) + struct.pack('<HH', 9, 9)


def wait_up(p, folder):
    until = time.monotonic() + 60
    while not os.path.exists(folder + '/cntrl'):
        assert p.poll() is None and time.monotonic() < until, 'peald does not start'
        time.sleep(0.02)


def start(folder, stderr, *args):
    p = subprocess.Popen([PEALD, '--dir', folder, '--dram', '64M', *args], stderr=stderr)
    wait_up(p, folder)
    return p


def peal(folder, *args, data=None):
    done = subprocess.run([PEAL, '--uri', f'vfu:{folder}', *args], input=data,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, f'{args}: {done.returncode} {done.stderr.decode()}'
    return done.stdout


def flood(folder, nr):
    """Connections that are refused, each with a line that somebody might write."""
    for _ in range(nr):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(folder + '/cntrl')
            s.sendall(WRONG)
            while s.recv(100):
                pass


def stop(p):
    p.terminate()
    assert p.wait(60) == 0, p.returncode


def stuck():
    """Nobody reads stderr and the pipe is full: clients are served, SIGTERM ends the daemon."""
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        r, w = os.pipe()
        os.set_blocking(w, False)
        try:
            while os.write(w, b'x' * 4096):
                pass
        except BlockingIOError:
            pass
        os.set_blocking(w, True)
        p = start(folder, w)
        flood(folder, 500)
        peal(folder, 'put', 'k', data=b'value')
        assert peal(folder, 'get', 'k') == b'value'
        stop(p)
        os.close(w)
        os.close(r)


def bounded():
    """The log grows by so many lines, whatever a client does, and says what it left out."""
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        path = folder + '/log'
        with open(path, 'wb') as f:
            p = start(folder, f)
            flood(folder, 3000)
            stop(p)
        with open(path, encoding='utf-8') as f:
            lines = f.read().splitlines()
        refused = [line for line in lines if 'VERSION refused' in line]
        # A burst of 20 and one in 10 s; the flood takes some seconds, on the slowest machine more.
        assert 20 <= len(refused) <= 60, len(refused)


def closed():
    """Started without standard files: nothing of the daemon's own gets their places."""
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        script = 'exec "$0" --dir "$1" --dram 64M <&- >&- 2>&-'
        p = subprocess.Popen(['sh', '-c', script, PEALD, folder])
        wait_up(p, folder)
        for fd in range(3):
            assert os.readlink(f'/proc/{p.pid}/fd/{fd}') == '/dev/null'
        peal(folder, 'put', 'k', data=b'value')
        stop(p)


stuck()
bounded()
closed()
