#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The static trace points of the daemon are those of doc/architecture.md: their names, and as many
arguments as it says.

usage: probes.py PEALD ARCHITECTURE.MD
"""

import re
import subprocess
import sys

notes = subprocess.run(['readelf', '-n', '-W', sys.argv[1]], capture_output=True, text=True,
                       check=True).stdout
there = {}
for name, args in re.findall(
        r'Provider: peal\s+Name: (\w+)\s+Location: [^\n]*\s+Arguments: ([^\n]*)', notes):
    there.setdefault(name, set()).add(len(args.split()))

told = {}
with open(sys.argv[2], encoding='utf-8') as f:
    for row in re.findall(r'^\|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|$', f.read(), re.M):
        # "reactor, (until when)": the last one isn't every probe's.
        args = [x for x in re.sub(r'\([^)]*\)', '', row[3]).split(',') if x.strip()]
        more = len(re.findall(r'\(([^)]*)\)', row[3]))
        for name in re.findall(r'`(\w+)`', row[2] if 'provider' not in row[2] else ''):
            told[name] = {len(args), len(args) + more}

assert set(there) == set(told), f'in the file {sorted(there)}, in the document {sorted(told)}'
for name, counts in there.items():
    assert counts <= told[name], f'{name}: {counts} arguments, the document says {told[name]}'
print(len(there), 'probes as documented')
