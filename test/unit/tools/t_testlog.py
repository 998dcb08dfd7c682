# SPDX-License-Identifier: Apache-2.0
"""tools/testlog counts results, allows the skips that .ci/skips names and fails on any other."""

import json
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


@pytest.fixture(name='repo')
def make_repo(tmp_path):
    os.makedirs(tmp_path / 'tools')
    os.makedirs(tmp_path / '.ci')
    os.makedirs(tmp_path / 'build/plain/meson-logs')
    shutil.copy(os.path.join(ROOT, 'tools', 'testlog'), tmp_path / 'tools' / 'testlog')
    (tmp_path / '.ci/skips').write_text('# why\nt_gpu*  no GPU\nt_bare\n', encoding='utf-8')
    return tmp_path


def count(repo, tests, *steps):
    log = repo / 'build/plain/meson-logs/testlog.json'
    log.write_text(''.join(json.dumps(dict(name='peal:unit / ' + name, result=result, stdout=out))
                           + '\n' for name, result, out in tests), encoding='utf-8')
    r = subprocess.run([str(repo / 'tools/testlog'), str(log), *steps], capture_output=True,
                       text=True, check=False)
    return r.returncode, r.stdout.strip().split('\n')


def test_passed(repo):
    rc, out = count(repo, [('a', 'OK', ''), ('b', 'EXPECTEDFAIL', '')], 'build=ok')
    assert rc == 0 and out[-1] == '3 passed, 0 failed, 0 skipped'


@pytest.mark.parametrize('result', ['FAIL', 'TIMEOUT', 'ERROR', 'INTERRUPT', 'UNEXPECTEDPASS'])
def test_failed(repo, result):
    rc, out = count(repo, [('a', 'OK', ''), ('b', result, '')])
    assert rc == 1 and out[-1] == '1 passed, 1 failed, 0 skipped'


def test_failed_step(repo):
    rc, out = count(repo, [('a', 'OK', '')], 'build=failed', str(repo / 'gone.json'))
    assert rc == 1 and out[-1] == '1 passed, 2 failed, 0 skipped'


def test_skipped_step(repo):
    rc, out = count(repo, [], 't_gpu=skipped')
    assert rc == 0 and out[-1] == '0 passed, 0 failed, 1 skipped'
    rc, out = count(repo, [], 'other=skipped')
    assert rc == 1 and out[-1] == '0 passed, 1 failed, 0 skipped'


def test_skip_allowed(repo):
    rc, out = count(repo, [('t_gpu_x', 'SKIP', 'noise\nskip: no device\n')])
    assert rc == 0 and out[-1] == '0 passed, 0 failed, 1 skipped' and 'no device' in out[0]


@pytest.mark.parametrize('name', ['t_other', 't_bare'])
def test_skip_refused(repo, name):
    rc, out = count(repo, [(name, 'SKIP', '')])
    assert rc == 1 and out[-1] == '0 passed, 1 failed, 0 skipped'


@pytest.mark.parametrize('out', ['[  SKIPPED ] t_case\n[  SKIPPED ] 1 test(s), listed below:\n',
                                 'SKIPPED [1] test/py/t_case.py:3: no numpy\n'])
def test_inner_skip(repo, out):
    rc, lines = count(repo, [('t_x', 'OK', out)])
    assert rc == 1 and lines[-1] == '1 passed, 1 failed, 0 skipped'
    rc, lines = count(repo, [('t_gpu', 'OK', out)])
    assert rc == 0 and lines[-1] == '1 passed, 0 failed, 1 skipped'


def test_says_why(repo):
    """The end of what a failed test printed stands beside its name, and not all of it."""
    text = ''.join(f'line {i}\n\n' for i in range(100)) + 'x' * 1000 + '\nthe reason\n'
    rc, out = count(repo, [('a', 'OK', 'nobody asks'), ('b', 'FAIL', text)])
    assert rc == 1 and out[0].startswith('FAILED   plain: b: FAIL')
    assert out[-2] == '         the reason' and len(out) == 18
    assert 'line 99' in '\n'.join(out) and 'line 80' not in '\n'.join(out)
    assert max(map(len, out)) < 220 and 'nobody asks' not in '\n'.join(out)
