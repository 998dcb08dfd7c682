/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU as client of peald: libpeal-gpu. The CUDA driver is looked for when peal_gpu_attach() is
 * called; without one it answers -ENODEV and says why.
 *
 *	struct peal_gpu *g;
 *	if (peal_gpu_attach("vfu:/run/peal/cntrl", NULL, &g) < 0)	// in the GPU's context
 *		errx(1, "%s", peal_gpu_errmsg());
 *	struct peal_gpu_req *r = peal_gpu_reqs(g, n);
 *	r[i] = (struct peal_gpu_req){.key = key, .buf = vram_ptr, .bytes = room};
 *	peal_gpu_retrieve_async(g, r, n, stream);
 *	... later work in the stream finds the values; r[i].status says which are there
 *
 * Kernels of one's own take peal_gpu_side() and drive its queue by peal/device.h. Then nothing else
 * may be under way, the launchers' work included: a queue pair has one group at a time. Attach as
 * often as there are groups.
 *
 * Threads: one at a time for each struct peal_gpu; its streams are the caller's to order.
 */
#ifndef PEAL_GPU_H
#define PEAL_GPU_H

#include <stddef.h>
#include <stdint.h>
#include "device.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct peal_gpu;

/* What memory of the queue pair lies in the GPU, as a mask. Today 0 alone is to be had. */
#define PEAL_GPU_SQ 1u
#define PEAL_GPU_CQ 2u
#define PEAL_GPU_BELL 4u
#define PEAL_GPU_DATA 8u

struct peal_gpu_opts {
	uint32_t nsid;	     /* 0 = the lowest KV namespace */
	uint32_t depth;	     /* commands under way, 63 to 4095; 0 = 1023 */
	uint32_t mode;	     /* PEAL_GPU_*; what this platform can't do is -EOPNOTSUPP */
	uint64_t land_bytes; /* of the landing area; 0 = 64 MiB */
	/*
	 * Values of more bytes are leased and read in place; smaller ones land in the landing area.
	 * 0 = 256 KiB; UINT64_MAX: never.
	 */
	uint64_t lease_bytes;
	uint32_t timeout_ms; /* of attaching, and of each wave of a launcher; 0 = 2000 */
};

/* A launcher's request, in memory of peal_gpu_reqs(). */
struct peal_gpu_req {
	struct peal_key key;
	uint32_t bytes; /* of buf: the value's, or room for it */
	void *buf;	/* in the GPU's memory; 16-byte aligned ones are copied fastest */
	/* out */
	uint32_t status; /* PEAL_ST_*; PENDING: the time was over */
	uint32_t value_bytes;
};

/* For kernels: it and all that it points to is in the GPU's memory, or mapped there. */
struct peal_gpu_side {
	struct peal_device_queue q;	/* the last user's, for the next one */
	struct peal_result *res;	/* as many as the queue has slots */
	uint8_t *land;			/* the landing area, */
	uint64_t land_iova;		/* where peald sees it, */
	uint64_t land_bytes;		/* its size */
	const uint8_t *const *segments; /* of the arena, by number; NULL = not mapped */
	uint32_t nr_segments;
	uint32_t nsid;
};

/*
 * In the current context of the CUDA driver, or else the primary one of device 0. -errno: -ENODEV
 * there is no driver or no GPU, -EOPNOTSUPP a mode that can't be; else as peal_open().
 */
int peal_gpu_attach(const char *uri, const struct peal_gpu_opts *o, struct peal_gpu **g);
/* Nothing of it may be under way. NULL is fine. */
void peal_gpu_detach(struct peal_gpu *g);
/* A pointer of the GPU's, for kernels. */
struct peal_gpu_side *peal_gpu_side(struct peal_gpu *g);
const char *peal_gpu_errmsg(void); /* of this thread's last failed call; never NULL */
/* nr requests, zeroed, for host and GPU; freed by peal_gpu_detach(). NULL: no memory. */
struct peal_gpu_req *peal_gpu_reqs(struct peal_gpu *g, uint32_t nr);

/*
 * In the order of `stream` (a CUstream or cudaStream_t). 0: launched, the requests say what came of
 * them when the stream has passed; -errno: not or not all of it was; -EOPNOTSUPP: this library was
 * built without nvcc, it has no kernels of its own. A request whose wave was late stays
 * PENDING; the next launch waits for it before anything else, since peald may still write.
 */
int peal_gpu_retrieve_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr,
			    void *stream);
/* opts: PEAL_STORE_*. */
int peal_gpu_store_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr, uint32_t opts,
			 void *stream);
int peal_gpu_exist_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr, void *stream);
/*
 * How many leading keys of reqs are present: reqs[0].value_bytes, when reqs[0].status is 0. At most
 * PEAL_MATCH_MAX.
 */
int peal_gpu_match_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr, void *stream);

#ifdef __cplusplus
}
#endif

#endif
