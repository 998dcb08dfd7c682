#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peald's life from the outside: wrong options, a second daemon on the same folder, linger.

usage: options.py PEALD
"""

import datetime
import os
import socket
import subprocess
import sys
import tempfile
import time

import peer
import vfu_host

# What is given, and what the message must name: the option, the value, what was expected.
WRONG = [
    (['--dram', 'lots'], ['--dram', "'lots'", '8G']),
    (['--dram', '0'], ['--dram', "'0'", 'from 1.0 MiB']),
    (['--dram', '-1'], ['--dram', "'-1'", '8G']),
    (['--dram', '9999999999999G'], ['--dram', "'9999999999999G'", 'to 64.0 TiB']),
    (['--reactors', '0'], ['--reactors', "'0'", 'from 1 to 31']),
    (['--reactors', '32'], ['--reactors', "'32'", 'from 1 to 31']),
    (['--reactors', '2x'], ['--reactors', "'2x'", 'from 1 to 31']),
    (['--ns', 'kv'], ['--ns', "'kv'", 'NAME=SIZE']),
    (['--ns', '=1G'], ['--ns', "'=1G'", 'NAME=SIZE']),
    (['--ns', 'kv=some'], ['--ns', "'some'", '8G']),
    (['--ns', 'kv=1G,ro'], ['--ns', "'kv=1G,ro'", 'NAME=SIZE,rw']),
    (['--ns', '3=1G'], ['--ns', "'3=1G'", 'not of digits alone']),
    (['--ns', 'a\x1b=1G'], ['--ns', 'without control characters']),
    (['--ns', b'a\xff=1G'], ['--ns', 'of UTF-8']),
    (['--tiers', '3=dram 1G'], ['--tiers', "'3=dram 1G'", 'not of digits alone']),
    (['--block', 'f', '--block', 'f'], ['two block namespaces are on f', 'of its own']),
    (['--ns', 'k' * 64 + '=1G'], ['--ns', 'k' * 64, 'NAME=SIZE']),
    (['--dram', '8M', '--ns', 'a=6M', '--ns', 'b=6M'], ['--dram', '12582912', '8388608']),
    (['--block', ''], ['--block', 'FILE[,size']),
    (['--block', 'f,size=some'], ['--block', "'some'"]),
    (['--block', 'f,lba=513'], ['--block', "'f,lba=513'", 'lba=512|4096']),
    (['--linger', 'soon'], ['--linger', "'soon'", 'a number from 1']),
    (['--value-max', '129M'], ['--value-max', "'129M'", 'to 128.0 MiB']),
    (['--max-keys', '5'], ['--max-keys', "'5'", 'from 1024']),
    (['--max-clients', '257'], ['--max-clients', "'257'", 'from 1 to 256']),
    (['--poll', 'often'], ['--poll', "'often'", 'from 1']),
    (['--log-level', 'loud'], ['--log-level', "'loud'", 'err, warn, info or debug']),
    (['what'], ["'what'", 'no arguments']),
    (['--what'], ['--what']),
]


def run(peald, *args):
    return subprocess.run([peald, *args], capture_output=True, text=True, errors='replace',
                          timeout=60, check=False)


def wrong(peald, folder):
    for args, says in WRONG:
        done = run(peald, '--dir', folder, *args)
        assert done.returncode == 2, f'{args}: status {done.returncode}, expected 2'
        for word in says:
            assert word in done.stderr, f'{args!r}: no {word} in: {done.stderr}'
    assert not os.listdir(folder), os.listdir(folder)


def ranges(peald):
    """Whatever takes a number says in the help from where to where."""
    text = ' '.join(run(peald, '--help').stdout.split())
    for says in ['at a time (1 to 256; default: 64)', '(1 to 31; default: 1)',
                 "don't say (1 B to 128.0 MiB; default: 128M)", '(1 to 31536000; default: never)']:
        assert says in text, f'no {says} in: {text}'


def config(peald, folder):
    """A wrong file is told with its name, the line, the value and what was expected."""
    path = f'{folder}/peald.yaml'
    for text, says in [
            ('reactors: 1\nnamespaces:\n- {name: kv, size: lots}\n',
             [f"{path}:3:20: size: 'lots'", 'from 1.0 MiB']),
            ('namespaces:\n- {name: kv, size: 8M}\ndram: 4M\n',
             [f'{path}:2: ', '8388608', '4194304']),
            ('what: 1\n', [f"{path}:1:1: 'what' is no key", 'reactors'])]:
        with open(path, 'w', encoding='ascii') as f:
            f.write(text)
        for more in [], ['--check-config']:
            done = run(peald, '--dir', folder, '--config', path, *more)
            assert done.returncode == 2, f'{text}: status {done.returncode}, expected 2'
            for word in says:
                assert word in done.stderr, f'{text}: no {word} in: {done.stderr}'
    with open(path, 'w', encoding='ascii') as f:
        f.write('dram: 8M\nreactors: 2\n')
    done = run(peald, '--check-config', '--config', path, '--reactors', '3')
    assert done.returncode == 0 and 'good: 3 reactors, 8.0 MiB' in done.stdout, done
    done = run(peald, '--check-config', '--config', f'{folder}/nowhere')
    assert done.returncode == 2 and 'No such file' in done.stderr, done
    os.unlink(path)


def blocks(peald, folder):
    """What is wrong with the file of a block namespace is said with what it has and should have."""
    def made(name, size):
        with open(f'{folder}/{name}', 'wb') as f:
            f.truncate(size)
        return f'{folder}/{name}'

    good, empty, odd = made('good', 1 << 20), made('empty', 0), made('odd', 1000)
    os.link(good, f'{folder}/link')
    for arg, says in [
            ('/dev/null', ['/dev/null: ', 'neither a file nor a block device']),
            (empty, ['it has 0 bytes', 'a multiple of its blocks of 512 and not 0']),
            (odd, ['it has 1000 bytes', 'a multiple of its blocks of 512']),
            (f'{good},size=2M', ['it has 1048576 bytes', '2097152 bytes as size= says']),
            (f'{good},size=2M,lba=4096', ['it has 1048576 bytes', 'its blocks of 4096']),
            (f'{folder}/new,size=1048577', ['size=1048577 is no multiple of its blocks of 512'])]:
        done = run(peald, '--dir', folder, '--dram', '4M', '--block', arg)
        assert done.returncode == 1, done
        for word in says:
            assert word in done.stderr, f'{arg}: no {word} in: {done.stderr}'
    done = run(peald, '--dir', folder, '--dram', '4M', '--check-config', '--block', good,
               '--block', odd)
    assert done.returncode == 0 and '1 namespace, 2 of blocks' in done.stdout, done
    done = run(peald, '--dir', folder, '--dram', '4M', '--check-config', '--block', good,
               '--block', f'{folder}/link')
    assert done.returncode == 2 and f'two block namespaces are on {folder}/link' in done.stderr


def second(peald):
    with peer.daemon(peald, '--dram', '4M') as d:
        done = run(peald, '--dir', d.folder, '--dram', '4M')
        assert done.returncode == 1, f'second daemon: status {done.returncode}, expected 1'
        assert d.folder in done.stderr, done.stderr
        print(done.stderr)
        # The first one is still there.
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f'{d.folder}/cntrl')
    # And a socket that somebody left behind is no daemon.
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(f'{folder}/cntrl')
        peer.Daemon(peald, folder, '--dram', '4M').stop()


def nowhere(peald):
    done = run(peald, '--dir', '/proc/nowhere', '--dram', '4M')
    assert done.returncode == 1, f'no folder: status {done.returncode}, expected 1'
    assert '/proc/nowhere' in done.stderr, done.stderr


def at(log, words):
    """When the log says so, in seconds."""
    line = next(x for x in log.splitlines() if words in x)
    then = datetime.datetime.fromisoformat(line.split()[0].rstrip('Z'))
    return then.replace(tzinfo=datetime.timezone.utc).timestamp()


def linger(peald):
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        d = peer.Daemon(peald, folder, '--dram', '4M', '--linger', '1')
        # A short visit: the second counts from its end.
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f'{folder}/cntrl')
            left = time.time()
        # Nobody else comes. It says so, ends well, and takes its socket along.
        d.log += d.process.communicate(timeout=60)[1]
        assert d.process.returncode == 0, d.process.returncode
        assert at(d.log, 'no client for 1 s') - left > 0.99, (left, d.log)
        assert not os.path.exists(f'{folder}/cntrl')


def identify(folder):
    """Serial number and NQN of the subsystem, NGUID and UUID of both namespaces."""
    h = vfu_host.Host(f'{folder}/cntrl')
    h.attach()
    h.enable()
    at = vfu_host.DATA
    assert h.command(0, 6, prp=vfu_host.IOVA + at, dw10=1)[0] == 0
    page = bytes(h.mem[at:at + 4096])
    said = [page[4:24], page[768:1024].rstrip(b'\0')]
    for nsid in 1, 2:
        assert h.command(0, 6, nsid=nsid, prp=vfu_host.IOVA + at, dw10=3)[0] == 0
        said.append(bytes(h.mem[at:at + 4096]))
    return said


def identity(peald):
    """A host takes two subsystems of one name for two paths to the same data."""
    seen = {}
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        os.mkdir(f'{folder}/kept')
        # The same folder twice, another one, and twice the same --id in different ones.
        for name, args in [('kept', []), ('kept', []), ('other', []), ('a', ['--id', 'node 7']),
                           ('b', ['--id', 'node 7']), ('c', ['--id', 'node 8'])]:
            d = peer.Daemon(peald, f'{folder}/{name}', '--dram', '4M', *args, '--block',
                            f'{folder}/disk,size=1M')
            said = identify(f'{folder}/{name}')
            d.stop()
            key = args[1] if args else name
            assert seen.setdefault(key, said) == said, (key, seen[key], said)
    for i, what in enumerate(['serial number', 'NQN', 'namespace 1', 'namespace 2']):
        assert len({said[i] for said in seen.values()}) == len(seen), (what, seen)
    assert all(said[1].startswith(b'nqn.2014-08.org.nvmexpress:uuid:') for said in seen.values())


def folder_of_others(peald):
    """A folder where somebody else could put his own socket in place of ours; no recordings."""
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        os.chmod(folder, 0o777)
        done = run(peald, '--dir', folder, '--dram', '4M')
        assert done.returncode == 1 and f'--dir {folder}: another user' in done.stderr, done
        os.chmod(folder, 0o755)
        for record in '/nowhere', '/dev/null':
            done = run(peald, '--dir', folder, '--dram', '4M', '--record', record)
            assert done.returncode == 1 and f'--record {record}: ' in done.stderr, done
        assert os.listdir(folder) == [], os.listdir(folder)


def main():
    peald = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        wrong(peald, folder)
        config(peald, folder)
    with tempfile.TemporaryDirectory(prefix='peal-test.') as folder:
        blocks(peald, folder)
    ranges(peald)
    second(peald)
    nowhere(peald)
    linger(peald)
    identity(peald)
    folder_of_others(peald)


if __name__ == '__main__':
    main()
