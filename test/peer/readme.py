#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's C program, which the build cut out and compiled, against a real peald.

usage: readme.py PEALD PROGRAM
"""

import subprocess
import sys

import peer


def main():
    peald, program = sys.argv[1:]
    with peer.daemon(peald, '--dram', '64M') as d:
        done = subprocess.run([program, d.uri], stdout=subprocess.PIPE, text=True, timeout=60,
                              check=True)
    assert done.stdout == 'right: the KV cache of a prefix\n', done.stdout
    return 0


if __name__ == '__main__':
    sys.exit(main())
