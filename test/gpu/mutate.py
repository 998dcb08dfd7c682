#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a broken peal/device.h, to see that g_sim finds it.

usage: mutate.py DEVICE_H NAME OUT
"""

import sys

# name: (what stands in the header, what stands there instead)
MUTANTS = {
    # The low half may be an older entry's.
    'no_reread': (
        """	if ((peal_port_poll(slot + 1) >> 48 & 1) != phase)
		return 0;
	lo = peal_port_load(slot);
	hi = peal_port_load(slot + 1);
""",
        """	lo = peal_port_load(slot);
	hi = peal_port_load(slot + 1);
	if ((hi >> 48 & 1) != phase)
		return 0;
"""),
    # The n-th completion is taken for the n-th command's.
    'by_position': (
        '	uint32_t i = (uint32_t)c->cid - q->cid;\n',
        '	uint32_t i = peal_ring_used(q->cq_head, slot, q->size);\n'),
    # After a lap the old entries look like new ones.
    'no_flip': (
        """	if (q->cq_head + q->nr_busy >= q->size)
		q->phase ^= 1;
""",
        ''),
    # The same where completions are taken one by one.
    'no_flip_one': (
        '	q->phase = peal_ring_phase(q->cq_head, q->size, q->phase);\n',
        ''),
    # The same inside a wave that goes over the end of the ring.
    'no_wrap': (
        'phase = at < q->cq_head ? q->phase ^ 1 : q->phase;',
        'phase = q->phase;'),
    # Lane 0 rings for commands that other lanes have not yet written.
    'bell_first': (
        """	peal_port_meet(lane, 1);
	if (lane->id == 0)
		peal_port_bell(q->sq_bell, q->sq_tail);
""",
        """	if (lane->id == 0)
		peal_port_bell(q->sq_bell, q->sq_tail);
	peal_port_meet(lane, 1);
"""),
    # A doorbell that may be seen before what it announces.
    'bell_plain': (
        """	if (lane->id == 0)
		peal_port_bell(q->sq_bell, q->sq_tail);
""",
        """	if (lane->id == 0)
		peal_port_plain(q->sq_bell, q->sq_tail);
"""),
    # A wave that is late is taken for one that is over.
    'late_is_over': (
        '		return peal_port_meet(lane, how != PEAL_WAVE_BAD) ? PEAL_WAVE_LATE '
        ': PEAL_WAVE_BAD;\n',
        '		peal_port_meet(lane, 1);\n'),
    # A lane goes on although another one isn't there yet.
    'no_vote': (
        '	if (!peal_port_meet(lane, how == PEAL_WAVE_OVER))\n',
        '	if (how != PEAL_WAVE_OVER)\n'),
}


def main():
    if sys.argv[1:] == ['--list']:
        print('\n'.join(MUTANTS))
        return 0
    header, name, out = sys.argv[1:]
    old, new = MUTANTS[name]
    with open(header, encoding='utf-8') as f:
        text = f.read()
    if text.count(old) != 1:
        print(f'mutate: {name}: its place is {text.count(old)} times in {header}, expected once',
              file=sys.stderr)
        return 1
    with open(out, 'w', encoding='utf-8') as f:
        f.write(text.replace(old, new))
    return 0


if __name__ == '__main__':
    sys.exit(main())
