# SPDX-License-Identifier: Apache-2.0
"""What the control plane of a peald can be asked for, each method by itself; for nth_daemon.py.
Answers are compared whole, but for numbers that change by themselves."""

import json
import re
import socket

from nth_ops import WAIT_S, Failed, Op, Wrong, key, no_namespace

def ask(s, request):
    with socket.socket(socket.AF_UNIX) as c:
        c.settimeout(WAIT_S)
        try:
            c.connect(f'{s.folder}/rpc')
            c.sendall(request)
            with c.makefile('rb') as f:
                line = f.readline()
        except OSError as e:
            raise s.failed(e) from e
    if not line:
        raise s.failed(Failed('hung up'))
    return json.loads(line)


# Numbers that change by themselves; and, of answers that are full of such, those that don't.
MOVING = frozenset('used_bytes memory_keys memory_bytes cost_us inflight nsid'.split())
STILL = frozenset('nsid capacity_bytes class max_keys value_max uid clients controllers reactors '
                  'media_errors bad_seals lost torn requests_max mailbox_full total_bytes'.split())
LOOSE = frozenset('stats client.list daemon.info ssd.devices ssd.wear'.split())


def differs(got, want, is_loose, at=''):
    """Where two answers aren't the same; '' when they are."""
    name = at.rpartition('.')[2]
    if isinstance(want, dict) and isinstance(got, dict):
        if got.keys() != want.keys():
            return f'{at}: {sorted(got.keys() ^ want.keys())}'
        return next(filter(None, (differs(got[k], want[k], is_loose, f'{at}.{k}')
                                  for k in want)), '')
    if isinstance(want, list) and isinstance(got, list):
        if len(got) != len(want):
            return f'{at}: {len(got)} of {len(want)}'
        return next(filter(None, (differs(g, w, is_loose, at) for g, w in zip(got, want))), '')
    are_numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (got, want))
    if got == want or (are_numbers and (name not in STILL if is_loose else name in MOVING)):
        return ''
    return f'{at}: {got!r}, {want!r}'


class Body:
    """An answer of the control plane, whole."""

    def __init__(self, result, is_loose=False):
        self.result, self.is_loose = result, is_loose

    def __eq__(self, other):
        return isinstance(other, Body) and not self.differs(other)

    def __repr__(self):
        return f'Body({self.result})'

    __hash__ = None

    def differs(self, want):
        return differs(self.result, want.result, self.is_loose)


def rpc(method, **params):
    def go(s):
        msg = {'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}
        reply = ask(s, json.dumps(msg).encode())
        if 'error' in reply:
            text = reply['error'].get('message', '')
            if not text or '(null)' in text or 'Success' in text or not reply['error']['code']:
                raise Wrong(f'{method}: an error that says nothing: {reply}')
            # Without memory to read what was asked, there is no number of it to say.
            if reply['id'] != 1 and not (reply['id'] is None and 'memory' in text):
                raise Wrong(f'{method}: {reply}')
            raise Failed(text)
        if reply.keys() != {'jsonrpc', 'id', 'result'} or reply['id'] != 1:
            raise Wrong(f'{method}: {reply}')
        return Body(reply['result'], method in LOOSE)
    return go


def rpcs(*calls):
    """One after the other, each asked whatever the one before has said."""
    def go(s):
        bodies, bad = [], None
        for call in calls:
            try:
                bodies.append(call(s).result)
            except Failed as e:
                bad = e
        if bad:
            raise bad
        return Body(bodies)
    return go


def no_class(s):
    try:
        rpc('class.remove', ns='rw', **{'class': 7})(s)
    except Failed:
        pass  # it never came


def rpc_unknown(s):
    try:
        return rpc('nobody')(s)
    except Failed as e:
        if 'is no method' not in str(e):
            raise
        return str(e)


def http(path, word):
    def go(s):
        port = int(re.search(r'/healthz on \S+ port (\d+)', s.daemon.log).group(1))
        try:
            with socket.create_connection(('127.0.0.1', port), WAIT_S) as c:
                c.sendall(f'GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n'.encode())
                data = b''
                while more := c.recv(65536):
                    data += more
        except OSError as e:
            raise s.failed(e) from e
        if not data.startswith((b'HTTP/1.1 200', b'HTTP/1.0 200')):
            raise s.failed(Failed(data[:100].decode()))
        if word not in data:
            raise Wrong(f'{path}: {data[:300]}')
        return path
    return go


METHODS = (
    ('methods', rpc('rpc.methods'), None, None),
    ('info', rpc('daemon.info'), None, None),
    ('config', rpc('daemon.config'), None, None),
    ('log_level', rpc('log.level'), None, None),
    ('stats', rpc('stats'), None, None),
    ('clients', rpc('client.list'), None, None),
    ('quiesce', rpcs(rpc('quiesce', seconds=1), rpc('resume')), None, None),
    ('list', rpc('ns.list'), None, None),
    ('ns', rpcs(rpc('ns.create', name='more', size='1M'), rpc('ns.resize', ns='more', size='2M'),
                rpc('ns.delete', ns='more')), None, no_namespace),
    ('flush', rpc('ns.flush', ns='kv'), None, None),
    ('classes', rpc('class.list', ns='kv'), None, None),
    ('class', rpcs(rpc('class.add', ns='rw', name='c', model='m', **{'class': 7}),
                   rpc('class.list', ns='rw'), rpc('class.remove', ns='rw', **{'class': 7})),
     None, no_class),
    ('usage', rpc('key.usage', ns='kv'), None, None),
    ('where', rpc('key.where', ns='kv', key='0x' + key(199).hex()), None, None),
    ('purge', rpc('key.purge', ns='kv', **{'class': 9}), None, None),
    ('ssd', rpc('ssd.devices'), None, None),
    ('ssd_state', rpc('ssd.state', ns='kv', state='rw'), None, None),
    ('ssd_budget', rpc('ssd.budget', ns='kv', size=0), None, None),
    ('ssd_bad', rpcs(rpc('ssd.bad', ns='kv'), rpc('ssd.bad_clear', ns='kv')), None, None),
    ('ssd_wear', lambda s: rpc('ssd.wear', folder=f'{s.folder}/ssd', how='auto')(s), None, None),
    ('unknown', rpc_unknown, None, None),
)
RPC_OPS = [Op('rpc_' + name, go, before=before, after=after, is_bare=True)
           for name, go, before, after in METHODS] + [
    Op('metrics', http('/metrics', b'peal_'), is_bare=True),
    Op('healthz', http('/healthz', b''), is_bare=True),
]
