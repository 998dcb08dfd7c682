#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes auth_vectors.h: what a host and a controller say to each other in DH-HMAC-CHAP, from NVMe
Base 2.0, 8.13.5, with nothing but hashlib, hmac and zlib.
"""

import base64
import hashlib
import hmac
import struct
import zlib

HASHES = {1: 'sha256', 2: 'sha384', 3: 'sha512'}
HOST = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
SUBSYSTEM = 'nqn.2024-01.io.peal:vectors'


def some(label, n):
    return hashlib.shake_128(label.encode()).digest(n)


def secret(kind, b):
    return f'DHHC-1:{kind:02}:{base64.b64encode(b + struct.pack("<I", zlib.crc32(b))).decode()}:'


def key(kind, b, nqn):
    if not kind:
        return b
    return hmac.digest(b, nqn.encode() + b'NVMe-over-Fabrics', HASHES[kind])


def said(challenge, seq, tid, label, who, whom):
    numbers = struct.pack('<IHB', seq, tid, 0)
    return challenge + numbers + label + who.encode() + b'\0' + whom.encode()


def array(b):
    return '{' + ', '.join(f'0x{x:02x}' for x in b) + '}'


def main():
    print('/* SPDX-License-Identifier: Apache-2.0 */')
    print('/* Made by auth_vectors.py. */')
    print(f'#define VECTOR_HOST "{HOST}"')
    print(f'#define VECTOR_SUBSYSTEM "{SUBSYSTEM}"')
    print('static const struct vector {')
    print('\tuint8_t hash, kind;')
    print('\tuint16_t tid;')
    print('\tuint32_t s1, s2;')
    print('\tconst char *host, *ctrl; /* secrets */')
    print('\tuint8_t c1[64], c2[64], r1[64], r2[64];')
    print('} vectors[] = {')
    for h, name in HASHES.items():
        for kind in (0, 1, 2, 3):
            n = 16 + 16 * (kind or h)
            hl = 16 + 16 * h
            hb, cb = some(f'host {h} {kind}', n), some(f'ctrl {h} {kind}', n)
            c1, c2 = some(f'c1 {h} {kind}', hl), some(f'c2 {h} {kind}', hl)
            s1, s2, tid = 0x01020304 * h, 0xf1e2d3c4 - kind, 0x8001 + kind
            r1 = hmac.digest(key(kind, hb, HOST),
                             said(c1, s1, tid, b'HostHost', HOST, SUBSYSTEM), name)
            r2 = hmac.digest(key(kind, cb, SUBSYSTEM),
                             said(c2, s2, tid, b'Controller', SUBSYSTEM, HOST), name)
            print(f'\t{{{h}, {kind}, {tid:#x}, {s1:#x}, {s2:#x},')
            print(f'\t "{secret(kind, hb)}",\n\t "{secret(kind, cb)}",')
            print('\t ' + ',\n\t '.join(array(x) for x in (c1, c2, r1, r2)) + '},')
    print('};')


main()
