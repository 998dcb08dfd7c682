#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What leaves libpeal.so is exactly what its headers declare, and each function has a man page.

usage: api.py LIBPEAL.SO SOURCE_DIR
"""

import re
import subprocess
import sys


def main():
    lib, root = sys.argv[1:]
    declared = set()
    for name in ['peal.h', 'key.h', 'pair.h', 'seal.h']:
        with open(f'{root}/include/peal/{name}', encoding='utf-8') as f:
            text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
        # Not inline functions, which have a body.
        declared |= set(re.findall(r'^(?!.*(?:inline|INLINE))[a-z].*?\b(peal_\w+)\([^;{]*\);', text,
                                   flags=re.M))
    out = subprocess.run(['nm', '-D', '--defined-only', lib], check=True, capture_output=True,
                         text=True).stdout
    exported = {w.split('@')[0] for w in re.findall(r' [A-Z] (\S+)$', out, flags=re.M)}
    exported.discard('PEAL_0')
    with open(f'{root}/doc/man/meson.build', encoding='utf-8') as f:
        pages = set(re.findall(r"'(peal_\w+)(?:\.3)?'", f.read()))

    bad = 0
    for what, names in [
            ('exported, but in no header', exported - declared),
            ('declared, but not exported', declared - exported),
            ('without a man page', declared - pages),
            ('a man page of no function', pages - declared)]:
        for name in sorted(names):
            print(f'{name}: {what}')
            bad += 1
    print(f'{len(declared)} functions')
    return 1 if bad or len(declared) < 30 else 0


if __name__ == '__main__':
    sys.exit(main())
