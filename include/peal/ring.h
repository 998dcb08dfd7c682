/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of NVMe submission and completion rings, once for the daemon, the library and device
 * code. Pure functions over indices, no memory access: C11, C++17, CUDA and HIP clean.
 *
 * A ring of `size` slots (2 to 4096 here; any size, not only powers of two) holds size - 1 entries
 * at most (NVMe Base 2.0, 3.3.1.4). The phase tag a controller writes starts at 1 and flips at each
 * wrap; a host expects 1 on its first pass.
 *
 * Publishing a CQE: the low 8 bytes first, then the high 8 (they carry the phase) with release.
 * Reaping: load the high half with acquire; when its phase is the expected one, fence and read the
 * whole entry again, since a reader may have combined a new high half with an old low one (the
 * torn-read rule). Results go by CID, never by position.
 */
#ifndef PEAL_RING_H
#define PEAL_RING_H

#include <stdint.h>

#ifndef PEAL_FN
#if defined(__CUDACC__) || defined(__HIPCC__)
#define PEAL_FN static inline __host__ __device__
#else
#define PEAL_FN static inline
#endif
#endif

#define PEAL_RING_MAX 4096u /* slots: CAP.MQES 4095, 0's based */

PEAL_FN uint32_t peal_ring_next(uint32_t i, uint32_t size)
{
	return i + 1 == size ? 0 : i + 1;
}

/* n slots further on; n <= size. */
PEAL_FN uint32_t peal_ring_add(uint32_t i, uint32_t n, uint32_t size)
{
	return i + n >= size ? i + n - size : i + n;
}

/* Entries between head and tail: what a consumer may take. */
PEAL_FN uint32_t peal_ring_used(uint32_t head, uint32_t tail, uint32_t size)
{
	return tail >= head ? tail - head : tail + size - head;
}

/* Slots a producer may still fill. */
PEAL_FN uint32_t peal_ring_free(uint32_t head, uint32_t tail, uint32_t size)
{
	return size - 1 - peal_ring_used(head, tail, size);
}

/* The phase after moving on from slot i: flips at the wrap. */
PEAL_FN uint32_t peal_ring_phase(uint32_t i, uint32_t size, uint32_t phase)
{
	return i + 1 == size ? phase ^ 1 : phase;
}

/*
 * Byte offset in BAR0 of a doorbell: queue qid, cq = 0 for the SQ tail, 1 for the CQ head;
 * stride = 4 << DSTRD.
 */
PEAL_FN uint64_t peal_doorbell_offset(uint32_t qid, uint32_t cq, uint32_t stride)
{
	return 0x1000u + (uint64_t)(2 * qid + cq) * stride;
}

#endif
