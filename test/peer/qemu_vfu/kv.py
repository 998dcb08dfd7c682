# SPDX-License-Identifier: Apache-2.0
"""KV commands as a guest gives them: `nvme io-passthru` on /dev/ng0n1, nothing of ours in between.

Values are made in the guest and compared by their SHA-256, in the guest and through libpeal on the
host.
"""

import hashlib
import re
import subprocess

FLUSH, STORE, RETRIEVE, LIST, DELETE, EXIST = 0x00, 0x01, 0x02, 0x06, 0x10, 0x14
STORE_EX, RETRIEVE_EX, MATCH, LEASE, RELEASE = 0x81, 0x82, 0x85, 0x8a, 0x8c
STORE_IF_EXISTS, STORE_IF_ABSENT = 1, 2
NOT_FOUND, KEY_EXISTS, VALUE_SIZE, KEY_SIZE = 0x87, 0x89, 0x85, 0x86
CLASS = 0x1c0
OPCODE = 1


class Kv:
    """Keys are up to 16 bytes; data go through files in the guest's /tmp."""

    def __init__(self, guest, peal, uri, nsid=1):
        self.guest, self.peal, self.uri, self.nsid = guest, peal, uri, nsid

    def command(self, opc, key=b'', opts=0, **more):
        """length and file (written to the device) or into (read from it): (status, DW0)."""
        size = more.get('length', 0)
        k = key.ljust(16, b'\0')
        dw = {2: k[:4], 3: k[4:8], 14: k[8:12], 15: k[12:]}
        line = f'nvme io-passthru /dev/ng0n{self.nsid} --opcode={opc} -n {self.nsid} '
        line += ' '.join(f'--cdw{n}={int.from_bytes(b, "little")}' for n, b in dw.items())
        line += f' --cdw10={more.get("cdw10", size)}'
        line += f' --cdw11={more.get("raw11", len(key) | opts << 8)}'
        for n in (12, 13):
            line += f' --cdw{n}={more.get(f"cdw{n}", 0)}'
        if size:
            line += f' --data-len={size}'
        if 'file' in more:
            line += f' -w --input-file={more["file"]}'
        if 'into' in more:
            line += f' -r --raw-binary 2>/tmp/said >{more["into"]}; s=$?; cat /tmp/said; exit $s'
        _, out = self.guest.status(line)
        found = re.search(r'\((0x[0-9a-fA-F]+)\)', out)
        if found:
            return int(found.group(1), 16) & 0x3fff, None
        found = re.search(r'result: ?(?:0x)?([0-9a-fA-F]+)', out)
        assert found, out
        return 0, int(found.group(1), 16)

    def ok(self, *args, **more):
        """DW0 of a command that has to succeed."""
        st, dw0 = self.command(*args, **more)
        assert st == 0, f'{args} {more}: status {st:#x}'
        return dw0

    def fails(self, want, *args, **more):
        st, _ = self.command(*args, **more)
        assert st == want, f'{args} {more}: status {st:#x}, expected {want:#x}'

    def make(self, name, size):
        """A file of random bytes in the guest; its SHA-256."""
        self.guest.run(f'head -c {size} /dev/urandom >{name}')
        return self.sum(name)

    def sum(self, name):
        return self.guest.run(f'sha256sum {name}').split()[0]

    def there(self, key):
        """SHA-256 of a value as the host has it."""
        out = subprocess.run([self.peal, '--uri', self.uri, '--ns', str(self.nsid), 'get',
                              '0x' + key.hex()], stdout=subprocess.PIPE, check=True).stdout
        return hashlib.sha256(out).hexdigest()

    def put_there(self, key, value):
        subprocess.run([self.peal, '--uri', self.uri, '--ns', str(self.nsid), 'put',
                        '0x' + key.hex()], input=value, check=True)


    def put_file(self, name, data):
        """A small file in the guest."""
        octal = ''.join(f'\\{b:03o}' for b in data)
        self.guest.run(f"printf '{octal}' >{name}")

    def get_file(self, name, size, at=0):
        """Bytes of a file in the guest; zeros at its end may be missing when they are read."""
        out = self.guest.run(f'tail -c +{at + 1} {name} | head -c {size} | od -An -v -tx1')
        return bytes.fromhex(''.join(out.split()))


def check_values(kv, sizes):
    """Each size from the guest to the daemon and back, and seen from the host."""
    for size in sizes:
        key = f'value {size}'.encode()
        want = kv.make('/tmp/v', size)
        kv.ok(STORE, key, length=size, file='/tmp/v')
        assert kv.ok(RETRIEVE, key, length=size, into='/tmp/w') == size
        assert kv.sum('/tmp/w') == want, f'{size} bytes came back wrong'
        assert kv.there(key) == want, f'{size} bytes are wrong on the host'


def check_standard(kv):
    """The commands of the KV Command Set and their statuses."""
    kv.make('/tmp/v', 4096)
    kv.fails(NOT_FOUND, RETRIEVE, b'a', length=4096, into='/tmp/w')
    kv.fails(NOT_FOUND, EXIST, b'a')
    kv.fails(NOT_FOUND, STORE, b'a', STORE_IF_EXISTS, length=4096, file='/tmp/v')
    kv.ok(STORE, b'a', STORE_IF_ABSENT, length=4096, file='/tmp/v')
    kv.fails(KEY_EXISTS, STORE, b'a', STORE_IF_ABSENT, length=4096, file='/tmp/v')
    kv.ok(STORE, b'a', STORE_IF_EXISTS, length=4096, file='/tmp/v')
    kv.ok(EXIST, b'a')
    kv.ok(FLUSH)
    # A buffer that is too small is no error: DW0 is the value's size.
    assert kv.ok(RETRIEVE, b'a', length=512, into='/tmp/w') == 4096
    assert kv.get_file('/tmp/w', 512) == kv.get_file('/tmp/v', 512)
    # What Mooncake's back end writes into CDW12 is ignored.
    assert kv.ok(RETRIEVE, b'a', length=4096, into='/tmp/w', cdw12=7) == 4096
    kv.fails(VALUE_SIZE, STORE, b'a', length=512, file='/tmp/v', cdw10=0)
    kv.fails(KEY_SIZE, EXIST, b'')
    kv.fails(KEY_SIZE, EXIST, bytes(17))
    check_list(kv)
    kv.ok(DELETE, b'a')
    kv.fails(NOT_FOUND, EXIST, b'a')


def check_list(kv):
    keys = {f'key {i}'.encode() for i in range(20)} | {b'k', bytes(range(16))}
    for key in keys:
        kv.ok(STORE, key, length=512, file='/tmp/v')
    kv.ok(LIST, length=4096, into='/tmp/w')
    data = kv.get_file('/tmp/w', 4096)
    got, at = set(), 4
    for _ in range(int.from_bytes(data[:4], 'little')):
        size = int.from_bytes(data[at:at + 2], 'little')
        got.add(data[at + 2:at + 2 + size])
        at += (2 + size + 3) & ~3
    assert keys < got and b'a' in got, got
    for key in keys:
        kv.ok(DELETE, key)


def wire_key(key):
    return key.ljust(16, b'\0') + bytes([len(key)]) + bytes(7)


def check_vendor(kv, has_lease=True):
    """STORE_EX, RETRIEVE_EX, MATCH, LEASE, RELEASE: doc/vendor-commands.md."""
    size = 100000
    block = bytes.fromhex('70') * 16 + bytes.fromhex('67') * 16 + bytes(range(32))
    block += bytes([16, 16]) + (7).to_bytes(2, 'little') + (123456).to_bytes(4, 'little')
    block += bytes(4) + (5).to_bytes(4, 'little') + bytes(48)
    kv.put_file('/tmp/b', block)
    want = kv.make('/tmp/v', size)
    kv.guest.run('cat /tmp/b /tmp/v >/tmp/bv')
    kv.ok(STORE_EX, b'chain 0', length=128 + size, file='/tmp/bv')
    assert kv.there(b'chain 0') == want
    # The block first, then the value; DW0 counts the value alone.
    assert kv.ok(RETRIEVE_EX, b'chain 0', 2, length=128 + size, into='/tmp/w') == size
    kv.guest.run('tail -c +129 /tmp/w >/tmp/x')
    assert kv.sum('/tmp/x') == want
    head = kv.get_file('/tmp/w', 128)
    assert int.from_bytes(head[8:12], 'little') == size and head[12:16] == b'\7\0\x10\x10'
    assert head[16:48] == block[:32] and head[48:80] == block[32:64]
    assert int.from_bytes(head[80:84], 'little') == 123456
    # From an offset, in units of 4 KiB.
    assert kv.ok(RETRIEVE_EX, b'chain 0', length=size, into='/tmp/w', cdw12=3) == size - 12288
    kv.guest.run(f'head -c {size - 12288} /tmp/w >/tmp/x; tail -c +12289 /tmp/v | cmp - /tmp/x')
    kv.ok(STORE, b'chain 1', length=4096, file='/tmp/v')
    keys = [b'chain 0', b'chain 1', b'chain 2', b'chain 0']
    kv.put_file('/tmp/k', b''.join(wire_key(k) for k in keys))
    assert kv.ok(MATCH, length=96, file='/tmp/k') == 2 | 2 << 16
    assert kv.ok(MATCH, length=96, file='/tmp/k', cdw10=24) == 1 | 1 << 16
    if has_lease:
        check_lease(kv, size)
    else:
        kv.fails(OPCODE, LEASE, b'chain 0', length=4096, into='/tmp/w', cdw12=5000)
    check_classes(kv, size)
    check_large(kv)


def rpc(kv, method, *words):
    subprocess.run([kv.peal, '--uri', kv.uri, 'rpc', method, f'ns={kv.nsid}', *words], check=True,
                   stdout=subprocess.DEVNULL)


def check_classes(kv, size):
    """The block of check_vendor() is of class 7: refused where only others are registered."""
    rpc(kv, 'class.add', 'class=8')
    kv.fails(CLASS, STORE_EX, b'chain 3', length=128 + size, file='/tmp/bv')
    kv.fails(NOT_FOUND, EXIST, b'chain 3')
    rpc(kv, 'class.add', 'class=7')
    kv.ok(STORE_EX, b'chain 3', length=128 + size, file='/tmp/bv')
    rpc(kv, 'key.purge', 'class=7')
    kv.fails(NOT_FOUND, EXIST, b'chain 3')
    kv.ok(EXIST, b'chain 1')
    rpc(kv, 'class.remove', 'class=7')
    rpc(kv, 'class.remove', 'class=8')


def check_large(kv):
    """A mebibyte less the block by STORE_EX, all of it and its end back by RETRIEVE_EX."""
    size = (1 << 20) - 128
    want = kv.make('/tmp/v', size)
    kv.guest.run('cat /tmp/b /tmp/v >/tmp/bv')
    kv.ok(STORE_EX, b'large', length=1 << 20, file='/tmp/bv')
    assert kv.there(b'large') == want
    assert kv.ok(RETRIEVE_EX, b'large', 2, length=1 << 20, into='/tmp/w') == size
    kv.guest.run('tail -c +129 /tmp/w | cmp - /tmp/v')
    at = 200 * 4096
    assert kv.ok(RETRIEVE_EX, b'large', length=size - at, into='/tmp/w', cdw12=200) == size - at
    kv.guest.run(f'tail -c +{at + 1} /tmp/v | cmp - /tmp/w')


def check_lease(kv, size):
    """What it names is mapped by libpeal alone; the commands are anybody's."""
    assert kv.ok(LEASE, b'chain 0', length=4096, into='/tmp/w', cdw12=5000) > 32
    data = kv.get_file('/tmp/w', 32)
    assert int.from_bytes(data[16:20], 'little') == size
    lease = int.from_bytes(data[:8], 'little')
    more = {'cdw10': lease & 0xffffffff, 'raw11': lease >> 32}
    kv.ok(RELEASE, **more)
    assert kv.command(RELEASE, **more)[0] != 0, 'released twice'
