#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""contrib/peald.service under a systemd that is process 1 of a container: the daemon starts inside
its sandbox as a user of its own, serves memory, SSD and HTTP, stops cleanly, starts warm, and is
started again when it is killed.

The container is this machine's /usr, with an empty /etc and /var (systemd-nspawn --volatile): what
is written there is gone with it.

usage: systemd.py PEALD PEAL PEALD.SERVICE
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77

CONFIG = '''dram: 64M
namespaces:
- name: kv
  tiers: "dram 32M | ssd /var/lib/peal 64M"
http:
  listen: 127.0.0.1:9440
'''

TARGET = '''[Unit]
Requires=basic.target go.service
After=basic.target go.service
AllowIsolate=yes
'''

GO = '''[Unit]
After=peald.service
Wants=peald.service
[Service]
Type=oneshot
StandardOutput=file:/out/log
StandardError=file:/out/err
ExecStart=/bin/sh /out/go.sh
ExecStopPost=/bin/systemctl poweroff --force
'''

# Each line of the log is NAME: what there was. until: up to two minutes, on a loaded machine.
SCRIPT = '''
until_serves() { i=0; while [ $i -lt 240 ] && ! peal exist x >/dev/null 2>/out/last; do
	grep -q 'no daemon\\|refused' /out/last || break; sleep 0.5; i=$((i+1)); done; }
main() { systemctl show -p MainPID --value peald; }
until_serves
P=$(main)
echo "user: $(ps -o user= -p $P)"
grep -E '^(Seccomp|NoNewPrivs|CapEff|CapBnd)' /proc/$P/status
S="/run/peal /run/peal/cntrl /run/peal/rpc /var/lib/peal"
echo "folders: $(stat -L -c '%U %a' $S | tr '\\n' ' ')"
echo "put: $(peal put hello --value world 2>&1; echo $?)"
echo "get: $(peal get hello)"
head -c 1000000 /dev/urandom >/out/a
echo "large: $(peal put large /out/a && peal get large | cmp - /out/a && echo same)"
echo "rpc: $(peal rpc ns.flush ns=kv | tr -d '\\n')"
U=http://127.0.0.1:9440/healthz
echo "http: $(python3 -c "import urllib.request as u; print(u.urlopen('$U').read().decode())")"
systemctl stop peald
show() { systemctl show -p $1 --value peald; }
echo "stopped: $(show Result) $(show ExecMainStatus)"
echo "left: $(ls /run/peal 2>/dev/null)"
systemctl start peald; until_serves
echo "warm: $(peal get hello)"
kill -9 $(main)
while [ "$(main)" = 0 ] || [ "$(systemctl show -p NRestarts --value peald)" = 0 ]; do
	sleep 0.5
done
until_serves
echo "again: $(peal get hello)"
echo "exposure: $(systemd-analyze security peald --no-pager | tail -1)"
journalctl -u peald --no-pager >/out/journal
'''


def skip(why):
    print('skipped:', why)
    sys.exit(SKIP)


def make(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def boot(folder):
    """What came out on the console; the log is in the folder."""
    return subprocess.run(
        ['systemd-nspawn', '--quiet', '--directory=/', '--volatile=yes', '--register=no',
         '--keep-unit', '--console=pipe', f'--machine=peal-{os.getpid()}',
         f'--bind={folder}/out:/out', f'--overlay=/usr:{folder}/usr:/usr',
         f'--overlay=/etc:{folder}/etc:/etc', '--boot', 'systemd.unit=go.target'],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=540,
        check=False).stdout.decode(errors='replace')


def read(path):
    if not os.path.exists(path):
        return ''
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read()


def main():
    peald, peal, unit = sys.argv[1:]
    if os.geteuid() != 0 or not shutil.which('systemd-nspawn'):
        skip('needs root and systemd-nspawn (package systemd-container)')
    with tempfile.TemporaryDirectory() as folder:
        for name in (peald, peal):
            os.makedirs(f'{folder}/usr/bin', exist_ok=True)
            shutil.copy(name, f'{folder}/usr/bin/')
        os.chmod(folder, 0o755)
        system = f'{folder}/etc/systemd/system'
        make(f'{system}/go.target', TARGET)
        make(f'{system}/go.service', GO)
        make(f'{folder}/etc/peal.yaml', CONFIG)
        make(f'{folder}/out/go.sh', SCRIPT)
        shutil.copy(unit, f'{system}/peald.service')
        console = boot(folder)
        log = dict(re.findall(r'^(\w+):[ \t]*(.*?)[ \t]*$', read(f'{folder}/out/log'), re.M))
        rest = f"{log}\n{read(folder + '/out/err')}\n{read(folder + '/out/journal')}\n{console}"
    if not log and 'Welcome' not in console and 'Starting' not in console:
        skip(f'no container can be booted here: {console.strip()[-200:]}')
    want = {'user': 'peal', 'NoNewPrivs': '1', 'Seccomp': '2', 'CapEff': '0' * 16,
            'CapBnd': '0' * 16, 'folders': 'peal 755 peal 600 peal 600 peal 700', 'put': '0',
            'get': 'world', 'large': 'same', 'rpc': '{}', 'http': 'ok', 'stopped': 'success 0',
            'left': '', 'warm': 'world', 'again': 'world'}
    for name, text in want.items():
        assert log.get(name) == text, f'{name}: {log.get(name)!r}, expected {text!r}\n{rest}'
    level = float(re.search(r'(\d+\.\d+) OK', log['exposure']).group(1))
    assert level <= 1.5, log['exposure']
    print(f'started, served, stopped, warm, restarted; exposure {level}')


main()
