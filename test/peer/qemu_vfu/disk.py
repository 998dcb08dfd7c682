# SPDX-License-Identifier: Apache-2.0
"""The block rehearsal in a guest: raw I/O with verification, a file system on it, trimming."""

import hashlib

DEV = '/dev/nvme0n2'


def check_raw(g, path):
    """Random writes of all sizes, read back and verified; the same bytes in the host's file."""
    out = g.run(f'fio --name=v --filename={DEV} --rw=randwrite --bsrange=512-64k '
                '--blockalign=512 --offset=1M --size=6M --verify=crc32c --direct=1 '
                '--ioengine=io_uring --iodepth=8 --minimal')
    assert out.split(';')[4] == '0', out  # the error
    g.run(f'head -c 1048576 /dev/urandom >/tmp/r; dd if=/tmp/r of={DEV} bs=64k conv=fsync '
          '2>/tmp/said || { cat /tmp/said; exit 1; }')
    with open(path, 'rb') as f:
        want = hashlib.sha256(f.read(1 << 20)).hexdigest()
    assert g.run('sha256sum /tmp/r').split()[0] == want, 'the file has other bytes'
    g.run(f'blkdiscard -o 4096 -l 65536 {DEV}')
    with open(path, 'rb') as f:
        f.seek(4096)
        assert f.read(65536) == bytes(65536), 'discarded blocks are not zero'


def make_fs(g):
    g.run(f'mkfs.ext4 -q -F {DEV}; mount -t ext4 {DEV} /mnt')
    out = g.run('fio --name=v --directory=/mnt --rw=randrw --bsrange=4k-128k --size=6M '
                '--verify=sha256 --end_fsync=1 --ioengine=libaio --iodepth=4 --minimal')
    assert out.split(';')[4] == '0', out
    g.run('head -c 3000001 /dev/urandom >/mnt/kept; sync; fstrim /mnt')
    return g.run('sha256sum /mnt/kept').split()[0]


def check_fs(g, want):
    """Sound, and the file as it was: before and after it was unmounted."""
    if g.status('grep -q /mnt /proc/mounts')[0] == 0:
        assert g.run('sha256sum /mnt/kept').split()[0] == want
        g.run('umount /mnt')
    # Replays the journal where the guest was killed; then there is nothing to find.
    st, out = g.status(f'e2fsck -p {DEV}')
    assert st in (0, 1), out
    g.run(f'e2fsck -f -n {DEV} 2>&1')
    g.run(f'mount -t ext4 {DEV} /mnt')
    assert g.run('sha256sum /mnt/kept').split()[0] == want
