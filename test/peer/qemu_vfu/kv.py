# SPDX-License-Identifier: Apache-2.0
"""KV commands as a guest gives them: `nvme io-passthru` on /dev/ng0n1, nothing of ours in between.

Values are made in the guest and compared by their SHA-256, in the guest and through libpeal on the
host.
"""

import hashlib
import re
import subprocess

FLUSH, STORE, RETRIEVE, LIST, DELETE, EXIST = 0x00, 0x01, 0x02, 0x06, 0x10, 0x14
NOT_FOUND, KEY_EXISTS, VALUE_SIZE, KEY_SIZE = 0x87, 0x89, 0x85, 0x86


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
        line += f' --cdw10={more.get("cdw10", size)} --cdw11={len(key) | opts << 8}'
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


def check_values(kv, sizes):
    """Each size from the guest to the daemon and back, and seen from the host."""
    for size in sizes:
        key = f'value {size}'.encode()
        want = kv.make('/tmp/v', size)
        kv.ok(STORE, key, length=size, file='/tmp/v')
        assert kv.ok(RETRIEVE, key, length=size, into='/tmp/w') == size
        assert kv.sum('/tmp/w') == want, f'{size} bytes came back wrong'
        assert kv.there(key) == want, f'{size} bytes are wrong on the host'
