#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles peal/device.h and the kernels over it with one kind of compiler, and looks for what the
memory model asks of the code that comes out: a system-scope release at each doorbell, behind the
barrier, and an acquire at the load that sees the phase. Nothing is run.

usage: compile.py c|c++|cuda|hip SOURCE_DIR

Skips (77) where there is no such compiler.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# What is compiled, and how often it rings (for commands, for completions) and sees a phase.
KERNELS = [('test/gpu/compile/wave.cu', 2, 1), ('src/gpu/gpu_kernels.cu', 6, 4),
           ('test/gpu/bench_kernels.cu', 4, 2)]
CUDA_ARCHS = ['sm_75', 'sm_80', 'sm_90', 'sm_100']
HIP_ARCHS = ['gfx90a', 'gfx1030']
# In each kernel: what has to follow what, nothing else of the same kind between.
PTX_BELL = re.compile(r'bar\.red\.and\.pred[^\n]*\n(?:(?!bar\.|st\.release)[^\n]*\n)*?'
                      r'[^\n]*st\.release\.sys\.u32')
PTX_PHASE = re.compile(r'ld\.acquire\.sys\.u64[^\n]*\n(?:(?!st\.|ld\.acquire)[^\n]*\n)*?'
                       r'[^\n]*ld\.relaxed\.sys\.u64[^\n]*\n[^\n]*(?:\n[^\n]*){0,3}?'
                       r'ld\.relaxed\.sys\.u64')
# A release: caches written back and all stores arrived, then the store. An acquire: the load has
# arrived, then caches are forgotten.
HIP_BELL = {
    'gfx90a': re.compile(r'buffer_wbl2\s*\n\s*s_waitcnt vmcnt\(0\)[^\n]*\n\s*flat_store_dword '),
    'gfx1030': re.compile(r's_waitcnt_vscnt null, 0x0\s*\n\s*flat_store_dword '),
}
HIP_PHASE = {
    'gfx90a': re.compile(r'flat_load_dwordx2 [^\n]*offset:8 glc\s*\n\s*s_waitcnt vmcnt\(0\)[^\n]*\n'
                         r'\s*buffer_invl2'),
    'gfx1030': re.compile(r'flat_load_dwordx2 [^\n]*offset:8 glc dlc\s*\n\s*s_waitcnt vmcnt\(0\)'
                          r'[^\n]*\n\s*buffer_gl0_inv\s*\n\s*buffer_gl1_inv'),
}


def skip(why):
    print(f'skip: {why}')
    sys.exit(77)


def run(args):
    out = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         check=False)
    if out.returncode:
        print(' '.join(args), out.stdout, sep='\n')
        sys.exit(1)
    return out.stdout


def find(name, *folders):
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


def host(lang, root):
    std = {'c': ['-std=c11'], 'c++': ['-std=c++17']}[lang]
    names = {'c': ['gcc', 'clang'], 'c++': ['g++', 'clang++']}[lang]
    found = [n for n in names if shutil.which(n)]
    if not found:
        skip(f'no compiler for {lang}: {" ".join(names)}')
    for cc in found:
        for opt in ['-O0', '-O2']:
            run([cc, '-x', lang, *std, opt, '-pedantic', '-Wall', '-Wextra', '-Werror',
                 f'-I{root}/include', '-c', f'{HERE}/all.h', '-o', '/dev/null'])
    print(', '.join(found))


def expect(what, source, arch, found, least):
    print(f'{source}, {arch}: {what}: {found}')
    if found < least:
        print(f'{source}, {arch}: {what}: expected at least {least}')
        sys.exit(1)


def cuda(root, folder):
    nvcc = find('nvcc', '/usr/local/cuda/bin')
    if not nvcc:
        skip('no nvcc')
    known = run([nvcc, '--list-gpu-arch'])
    archs = [a for a in CUDA_ARCHS if a.replace('sm', 'compute') in known]
    for source, bells, phases in KERNELS:
        for arch in archs:
            ptx = f'{folder}/k.ptx'
            run([nvcc, f'-arch={arch}', '-Werror', 'all-warnings', f'-I{root}/include',
                 f'-I{root}/src', '-ptx', '-o', ptx, f'{root}/{source}'])
            run([os.path.join(os.path.dirname(os.path.realpath(nvcc)), 'ptxas'), '-v',
                 f'-arch={arch}', '-o', f'{folder}/k.cubin', ptx])
            with open(ptx, encoding='ascii') as f:
                text = f.read()
            expect('release behind the barrier', source, arch, len(PTX_BELL.findall(text)), bells)
            expect('acquire, then both halves', source, arch, len(PTX_PHASE.findall(text)), phases)
            if re.search(r'st\.(relaxed|volatile|mmio)', text):
                print(f'{source}, {arch}: a store that is no release')
                sys.exit(1)


def hip(root, folder):
    hipcc = find('hipcc', '/opt/rocm/bin')
    if not hipcc:
        skip('no hipcc')
    for source, bells, phases in KERNELS:
        for arch in HIP_ARCHS:
            run([hipcc, '-x', 'hip', f'--offload-arch={arch}', '--cuda-device-only', '-O2', '-Wall',
                 f'-I{root}/include', f'-I{root}/src', '-S', '-o', f'{folder}/k.s',
                 f'{root}/{source}'])
            with open(f'{folder}/k.s', encoding='ascii') as f:
                text = f.read()
            expect('release, then the doorbell', source, arch,
                   len(HIP_BELL[arch].findall(text)), bells)
            expect('acquire of the phase', source, arch, len(HIP_PHASE[arch].findall(text)), phases)


def main():
    kind, root = sys.argv[1:]
    if kind in ('c', 'c++'):
        host(kind, root)
        return
    with tempfile.TemporaryDirectory() as folder:
        {'cuda': cuda, 'hip': hip}[kind](root, folder)


if __name__ == '__main__':
    main()
