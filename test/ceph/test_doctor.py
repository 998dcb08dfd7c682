# SPDX-License-Identifier: Apache-2.0
"""peal doctor beside a real cluster: each line good, and each bad with its reason. All in one test
of one cluster, which it breaks at the end.
"""

import json
import os
import subprocess

import mini_ceph

LINES = ('cluster', 'monitors', 'pool', 'rights', 'max-write')


def doctor(c, *args, conf=None):
    env = dict(os.environ, CEPH_CONF=conf or c.conf)
    done = subprocess.run([os.environ['PEAL_CLI'], '--json', 'doctor', *args], env=env,
                          stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    lines = [json.loads(x) for x in done.stdout.splitlines()]
    # What else is bad here is this machine's business.
    assert done.returncode == (3 if any(x['state'] == 'bad' for x in lines) else 0), done.stdout
    return {x['check']: (x['state'], x['text']) for x in lines if x['check'] in LINES}


def test_doctor():
    with mini_ceph.cluster() as c:
        mine = f'pool=kv ns=kv conf={c.conf} user=peal timeout=3'
        for bad in ('ns=kv', 'pool=kv pool=kv', 'pool=kv timeout=0', 'pool=kv colour=red'):
            refused = subprocess.run([os.environ['PEAL_CLI'], 'doctor', '--rados', bad],
                                     capture_output=True, text=True, timeout=60, check=False)
            assert refused.returncode == 2 and 'expected pool=POOL' in refused.stderr, refused
        got = doctor(c, '--rados', mine, conf='/nowhere')
        assert [got[x][0] for x in LINES] == ['good'] * 5, got
        assert '90 MiB' in got['max-write'][1]
        with c.handle.open_ioctx('kv') as io:
            io.set_namespace('kv')
            assert not list(io.list_objects())

        got = doctor(c)  # no pool is asked about
        assert list(got) == ['cluster', 'monitors'] and got['monitors'][0] == 'good', got
        got = doctor(c, conf='/nowhere')
        assert list(got) == ['cluster'] and got['cluster'][0] == 'note', got

        c.command('config set', who='osd', name='osd_max_write_size', value='8')
        c.user('reader', 'allow r pool=kv')
        for rados, line, text in (
                (mine, 'max-write', '8 MiB'),
                ('pool=none', 'pool', 'osd pool create none'),
                ('pool=kv', 'rights', 'may not read'),
                ('pool=kv ns=other', 'rights', 'may not read'),
                ('pool=kv ns=x user=reader', 'rights', "'allow rw pool=kv namespace=x'"),
                (f'pool=kv user=reader keyring={c.folder}/client.peal.keyring', 'monitors',
                 'refuse client.reader'),
                ('pool=kv user=nobody', 'monitors', 'no key ring for client.nobody'),
                ('pool=kv conf=/nowhere', 'cluster', 'no /nowhere')):
            got = doctor(c, '--rados', rados)
            assert got[line][0] != 'good' and text in got[line][1], got
            assert line in ('rights', 'max-write') or line == list(got)[-1], got

        c.freeze('osd')
        assert 'no OSD answers' in doctor(c, '--rados', mine)['rights'][1]
        c.freeze('mon')
        got = doctor(c, '--rados', mine)
        assert 'no monitor answers' in got['monitors'][1] and got['monitors'][0] == 'bad', got
