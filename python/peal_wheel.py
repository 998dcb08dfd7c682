#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build backend of the package (PEP 517): what meson has built, packed as a wheel.

usage: peal_wheel.py OUT_DIR

The wheel has the package, its one module for all Pythons from 3.10 on, libpeal and peald, which
find each other by $ORIGIN. Its tag is linux_x86_64: libraries of the system are not in it;
script/wheel adds them. Everything comes out of build/wheel, made here if need be. Needs meson,
ninja, patchelf.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
BUILD = os.path.join(TOP, "build", "wheel")
NATIVE = ["src/peald/peald", "src/client/libpeal.so.0.1.0", "python/pealkv/_peal.abi3.so"]


def project():
    """Of pyproject.toml; Python 3.10 has no parser for it."""
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as f:
        text = f.read()
    found = dict(re.findall(r'^([a-z-]+) = "(.*)"$', text, flags=re.M))
    listed = re.search(r"^dependencies = \[(.*?)\]", text, flags=re.M | re.S)[1]
    found["dependencies"] = re.findall(r'"(.*?)"', listed)
    return found


def build():
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.run(["meson", "setup", BUILD, TOP, "--buildtype=release", "-Dwerror=false",
                        # What they take would be in the wheel, and is a cluster's own matter.
                        "-Drados=disabled", "-Drbd=disabled"],
                       check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", BUILD, "--quiet", *NATIVE], check=True, stdout=sys.stderr)


def metadata(p):
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    lines = ["Metadata-Version: 2.1", f"Name: {p['name']}", f"Version: {p['version']}",
             f"Summary: {p['description']}", "License: Apache-2.0",
             f"Requires-Python: {p['requires-python']}",
             *[f"Requires-Dist: {d}" for d in p["dependencies"]],
             "Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines)


def collect(folder):
    """The package into the folder, ready to be imported there."""
    package = os.path.join(folder, "pealkv")
    for root, _, names in os.walk(os.path.join(HERE, "pealkv")):
        to = os.path.join(folder, os.path.relpath(root, HERE))
        for name in names:
            if name.endswith((".py", ".pyi", ".typed")):
                os.makedirs(to, exist_ok=True)
                shutil.copy(os.path.join(root, name), to)
    for path in NATIVE:
        name = os.path.basename(path).replace("libpeal.so.0.1.0", "libpeal.so.0")
        target = os.path.join(package, name)
        shutil.copy(os.path.join(BUILD, path), target)
        subprocess.run(["strip", "--strip-unneeded", target], check=True)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", target], check=True)


def pack(folder, wheel, info):
    """With RECORD, in a fixed order and without times, so that equal content is an equal file."""
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as z:
        for root, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(root, name)
                at = os.path.relpath(path, folder)
                with open(path, "rb") as f:
                    data = f.read()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                record.append(f"{at},sha256={digest.decode()},{len(data)}")
                z.writestr(entry(at, os.stat(path).st_mode), data)
        record.append(f"{info}/RECORD,,")
        z.writestr(entry(f"{info}/RECORD", 0o100644), "\n".join(record) + "\n")


def entry(name, mode):
    z = zipfile.ZipInfo(name)
    z.external_attr = mode << 16
    z.compress_type = zipfile.ZIP_DEFLATED
    return z


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    p = project()
    tag = f"cp310-abi3-linux_{platform.machine()}"
    name = f"{p['name']}-{p['version']}-{tag}.whl"
    info = f"{p['name']}-{p['version']}.dist-info"
    build()
    with tempfile.TemporaryDirectory() as folder:
        collect(folder)
        os.mkdir(os.path.join(folder, info))
        for file, text in [("METADATA", metadata(p)),
                           ("WHEEL", "Wheel-Version: 1.0\nGenerator: peal_wheel\n"
                                     f"Root-Is-Purelib: false\nTag: {tag}\n")]:
            with open(os.path.join(folder, info, file), "w", encoding="utf-8") as f:
                f.write(text)
        shutil.copy(os.path.join(TOP, "LICENSE"), os.path.join(folder, info))
        pack(folder, os.path.join(wheel_directory, name), info)
    return name


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
