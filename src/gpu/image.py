#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles gpu_kernels.cu into a C file that holds the fat binary: PTX for any GPU from sm_75 on,
and what those of servers run at once.

usage: image.py NVCC SOURCE_DIR OUT.c
"""

import os
import subprocess
import sys
import tempfile


def main():
    nvcc, root, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        fatbin = os.path.join(folder, 'k.fatbin')
        subprocess.run(
            [nvcc, '-fatbin', '-gencode', 'arch=compute_75,code=compute_75',
             '-gencode', 'arch=compute_80,code=sm_80', '-gencode', 'arch=compute_90,code=sm_90',
             f'-I{root}/include', f'-I{root}/src', '-o', fatbin,
             f'{root}/src/gpu/gpu_kernels.cu'], check=True)
        with open(fatbin, 'rb') as f:
            data = f.read()
    with open(out, 'w', encoding='ascii') as f:
        f.write('#include "gpu/gpu_image.h"\n'
                '__attribute__((aligned(64))) const unsigned char gpu_image[] = {')
        f.write(','.join(str(b) for b in data))
        f.write(f'}};\nconst unsigned gpu_image_bytes = {len(data)};\n')


if __name__ == '__main__':
    main()
