# SPDX-License-Identifier: Apache-2.0
"""Other processes, as tests treat them."""

import os
import signal
import time


def stop(pid, seconds=60):
    """SIGSTOP, and all its threads stand: kill() only begins that, and a thread that still runs
    answers meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + seconds
    for task in os.listdir(f'/proc/{pid}/task'):
        while state(pid, task) not in 'tTZX':
            assert time.monotonic() < until, 'it never stops'
            time.sleep(0.001)


def state(pid, task):
    """One letter, see proc_pid_stat(5)."""
    try:
        with open(f'/proc/{pid}/task/{task}/stat', encoding='utf-8') as f:
            return f.read().rpartition(')')[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return 'X'
