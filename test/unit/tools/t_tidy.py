# SPDX-License-Identifier: Apache-2.0
"""tools/tidy finds each kind of fault that is planted in a small repository, and nothing else."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SPDX = '/* SPDX-License-Identifier: Apache-2.0 */\n'
HEAD = SPDX + '/*\n * A file of this test, which says enough to pass. One thread.\n */\n'
GOOD = HEAD + '#include "base/good.h"\n\nint good_add(int a, int b)\n{\n\treturn a + b;\n}\n'


@pytest.fixture(name='template', scope='module')
def make_template(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp('tidy')
    for folder in ('src/base', 'src/core', 'src/store', 'include/peal', 'doc',
                   'test/unit/base', 'test/unit/core', 'test/unit/store'):
        os.makedirs(tmp_path / folder)
    shutil.copy(os.path.join(ROOT, '.clang-format'), tmp_path / '.clang-format')
    subprocess.run(['git', 'init', '-q', str(tmp_path)], check=True)
    write(tmp_path, 'src/base/good.h', HEAD + '#pragma once\n\nint good_add(int a, int b);\n')
    write(tmp_path, 'src/base/good.c', GOOD)
    write(tmp_path, 'test/unit/base/t_good.c', HEAD)
    assert not tidy(tmp_path)
    return tmp_path


@pytest.fixture(name='repo')
def make_repo(template, tmp_path):
    return shutil.copytree(template, tmp_path / 'repo')


def write(repo, path, text):
    (repo / path).write_text(text, encoding='utf-8')


def load_tidy():
    path = os.path.join(ROOT, 'tools', 'tidy')
    loader = importlib.machinery.SourceFileLoader('peal_tidy', path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('peal_tidy', loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
TIDY = load_tidy()


def tidy(repo):
    """The findings in `repo`, by the tool's own functions: starting it each time would be slow."""
    TIDY.ROOT = str(repo)
    TIDY.findings.clear()
    rc = TIDY.main([])
    assert rc == (1 if TIDY.findings else 0)
    return [f'{path}:{line}: {what}' for path, line, what in sorted(TIDY.findings)]


def with_function(name, body='\treturn 0;\n', args='void', before=''):
    return HEAD + f'{before}int {name}({args})\n{{\n{body}}}\n'


def test_clean(repo):
    assert not tidy(repo)


def test_program():
    """The program itself, once, on this repository: it runs and says how much it has seen."""
    r = subprocess.run([os.path.join(ROOT, 'tools', 'tidy')], capture_output=True, text=True,
                       check=False)
    assert 'findings in' in r.stdout and not r.stderr


@pytest.mark.parametrize('path, text, want', [
    ('src/base/good.h', '#pragma once\n', 'no SPDX line'),
    ('src/base/good.h', SPDX + '#pragma once\n', 'no header comment'),
    ('src/base/good.h', SPDX + '/* short */\n#pragma once\n', 'says nothing'),
    ('src/base/good.c', GOOD.replace('\treturn a', '\t/* ' + 'x' * 100 + ' */\n\treturn a'),
     'columns'),
    ('src/base/good.c', GOOD.replace('return a', 'return  a'), 'clang-format'),
    ('src/base/good.c', GOOD.replace(' b;', ' b; '), 'end of the line'),
    ('src/base/good.c', GOOD.rstrip('\n'), 'end of the file'),
    ('src/base/good.c', GOOD + '\n' * 1 + '/* x */\n' * 600, 'lines, expected at most 600'),
    ('src/base/good.c', with_function('good_f', '\tgood_add(1, 2);\n' * 71), 'function of 71'),
    ('src/base/good.c', with_function('good_f', args='int a, int b, int c, int d, int e, int f'),
     '6 parameters'),
    ('src/base/good.c', with_function('evil'), 'global function evil()'),
    ('src/base/good.c', with_function('peal_evil'), 'not declared in include/peal'),
    ('src/base/good.c', HEAD + '#include "store/store.h"\n', 'base includes store'),
    ('src/store/x.c', HEAD + '#include "nvme/nvme_kv.h"\n', 'store includes nvme'),
    ('src/core/x.c', HEAD + '#include "base/hash_int.h"\n', 'internal to base'),
    ('src/core/x.c', HEAD + '#include "good.h"\n', 'without a folder'),
    ('src/base/other.c', HEAD, 'no unit test'),
    ('src/odd/x.h', HEAD, 'has no layer'),
    ('include/peal/x.h', HEAD + '#include "base/good.h"\n', 'nothing from src/'),
    ('doc/a.md', 'See [this](gone.md).\n', 'link to gone.md'),
    ('doc/tour.md', 'Then `good_sub()` runs.\n', 'nowhere in the code'),
    ('doc/tour.md', 'Open `src/base/gone.c`.\n', 'no file or folder'),
])
def test_finds(repo, path, text, want):
    os.makedirs(os.path.dirname(repo / path), exist_ok=True)
    write(repo, path, text)
    if path.endswith('/x.c'):
        write(repo, 'test/unit/' + path[4:-3] + 't_x.c', HEAD)
    found = tidy(repo)
    assert any(x.startswith(path + ':') and want in x for x in found), found


@pytest.mark.parametrize('path, text', [
    ('src/base/good.c', with_function('evil', before='/* tidy: for this test */\n')),
    ('src/base/good.c', with_function('good_f', '\tgood_add(1, 2);\n' * 70)),
    ('src/base/good.c', with_function('good_f', args='int a, int b, int c, int d, int e')),
    ('src/base/good.c', HEAD + 'static int evil(void)\n{\n\treturn 0;\n}\n'),
    ('src/base/good.c', HEAD + '__attribute__((format(printf, 1, 2))) int good_f('
     'const char *s, int (*f)(int, int), ...)\n{\n\treturn 0;\n}\n'),
    ('src/base/other.c', HEAD + '/* tidy: no-test: for this test */\n'),
    ('src/base/no_good.c', with_function('good_add', before='/* tidy: no-test: a twin */\n')),
    ('doc/a.md', 'See [this](../src/base/good.c#x) and [that](https://example.org/).\n'),
    ('doc/tour.md', '`good_add()` in `base/good.c`, `good.h` and `src/base/`.\n'),
])
def test_allows(repo, path, text):
    write(repo, path, text)
    assert not tidy(repo)
