/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of blk/ share: the namespace, its staging buffers, the state of one command in its
 * request's scratch. A command belongs to the worker of its queue from blk_cmd_execute() to
 * blk_cmd_end().
 */
#ifndef BLK_BLK_INT_H
#define BLK_BLK_INT_H

#include "base/must.h"
#include "blk/blk.h"
#include "mem/mem_iter.h"

#define BLK_PIECE_BYTES MEM_CHUNK_BYTES /* what one I/O to the device moves */
#define BLK_BUFS 32u			/* staging buffers, per worker and namespace */
#define BLK_RANGES_MAX 256u		/* of one Dataset Management */

/* Opcodes (NVM Command Set 1.0, figure 17). */
enum {
	BLK_FLUSH = 0x00,
	BLK_WRITE = 0x01,
	BLK_READ = 0x02,
	BLK_COMPARE = 0x05,
	BLK_WRITE_ZEROES = 0x08,
	BLK_DSM = 0x09,
};

/*
 * Staging buffers of one worker: BLK_BUFS pieces, handed out first come, first served. Whoever
 * finds none waits in line, so that the memory is bounded and nobody starves.
 */
struct blk_buf {
	uint8_t *p;
	uint64_t off; /* in the region */
};

struct blk_wait {
	struct list node;
	void (*got)(struct blk_wait *w, struct blk_buf *buf); /* once; maybe inside get */
};

struct blk_bufs {
	struct blk_buf bufs[BLK_BUFS];
	struct blk_buf *free[BLK_BUFS];
	unsigned nr_free;
	bool is_handing; /* blk_bufs_hand() is on the stack: it sees what comes back */
	struct list waiting;
	struct counter nr_waited;
	struct mem_region *reg;
	void *base;
	size_t map_bytes;
};

int blk_bufs_init(struct blk_bufs *b);	/* 0 or -ENOMEM */
void blk_bufs_fini(struct blk_bufs *b); /* all back, nobody waits; fine when all zero */
void blk_bufs_get(struct blk_bufs *b, struct blk_wait *w);
void blk_bufs_put(struct blk_bufs *b, struct blk_buf *buf);

struct blk_cmd;
struct blk_ns;
struct blk_rbd;

/* What the blocks lie on: a file (blk_file.c) or an RBD image (blk_rbd.c). */
struct blk_dev_ops {
	/*
	 * What cmd->io says: op, off, mode and len, and cmd->iov for its bytes. cmd->end runs once
	 * on the command's worker, never from inside: 0, with all bytes moved, or -errno. The
	 * command's iov and io.off, len and mode are the device's until then.
	 */
	void (*io)(struct blk_cmd *cmd);
	bool (*is_short)(struct blk_ns *bn); /* has lost its end; asks no disk. May be NULL */
	/*
	 * It keeps nothing back, so a flush that fails has lost nothing, and -ETIMEDOUT says that
	 * nobody has answered yet.
	 */
	bool is_remote;
	/* No commands any more. closed() runs on home, maybe from inside. */
	void (*close)(struct blk_ns *bn, struct reactor *home, void (*closed)(struct blk_ns *bn));
};

struct blk_ns {
	struct tgt_ns ns;
	const struct blk_dev_ops *dev;
	int fd;		     /* of a file */
	struct blk_rbd *rbd; /* of an image */
	unsigned nr_workers;
	void (*gone)(void *arg, uint16_t st); /* while it is closed */
	void *gone_arg;
	uint32_t lba_shift;
	uint64_t nr_lbas;
	/* fsync failed once, or the file became shorter: what it had may be gone, see blk.h */
	_Atomic bool is_lost;
	_Atomic uint32_t nr_alerts;
	struct blk_bufs *bufs[REACTORS_MAX]; /* one per worker, that worker's */
};

/*
 * Sets dev, fd or rbd, nr_lbas and ns.name, and says by which text it is the same disk to a host
 * after a restart: never a KV namespace's. 0 or what blk_ns_create() is to return.
 */
#define BLK_ID_BYTES 4200u /* a path, and what it is */
int blk_file_open(struct blk_ns *bn, const struct blk_ns_opts *o, char id[BLK_ID_BYTES]);
int blk_rbd_open(struct blk_ns *bn, const struct blk_ns_opts *o, char id[BLK_ID_BYTES]);

static inline struct blk_ns *blk_ns_of(const struct tgt_req *req)
{
	return container_of(req->ns, struct blk_ns, ns);
}

struct blk_cmd {
	struct blk_wait wait;
	struct blk_buf *buf; /* NULL: none */
	struct io_req io;    /* what the device is asked for */
	struct iovec iov;
	struct mbox_msg msg; /* an image's answer */
	int res;
	void (*end)(struct blk_cmd *cmd, int res); /* of a piece's whole I/O, see blk_cmd_io() */
	struct mem_xfer x;
	struct mem_iter_runs vi;
	struct mem_run run;
	uint64_t seals[1]; /* mem_xfer wants a place for them; nobody reads it */
	uint64_t off;	   /* in the device: where the next piece begins */
	uint64_t left;	   /* bytes from there */
	uint32_t piece;	   /* bytes of the one under way */
	uint32_t at, nr;   /* Dataset Management: ranges */
	bool is_fua;
};
static_assert(sizeof(struct blk_cmd) <= TGT_SCRATCH_BYTES, "a command's state fits the request");

static inline struct blk_cmd *blk_cmd_of(struct tgt_req *req)
{
	return (struct blk_cmd *)req->scratch;
}

static inline struct tgt_req *blk_req_of(struct blk_cmd *cmd)
{
	return container_of((void *)cmd, struct tgt_req, scratch);
}

static inline struct blk_bufs *blk_bufs_of(struct blk_cmd *cmd)
{
	struct tgt_req *req = blk_req_of(cmd);

	return blk_ns_of(req)->bufs[req->sq->worker->id];
}

/* blk_cmd.c */
void blk_cmd_execute(struct tgt_req *req);
void blk_cmd_end(struct blk_cmd *cmd, uint16_t st);  /* gives the buffer back, completes */
void blk_cmd_fail(struct blk_cmd *cmd, uint16_t st); /* the same, host's mistake: with DNR */
/* What the device said to a command: status, alert, media error, and is_lost for a failed fsync. */
uint16_t blk_cmd_status(struct blk_cmd *cmd, int res);
/* cmd->piece bytes at p and cmd->off, all of them. */
void blk_cmd_io(struct blk_cmd *cmd, enum io_op op, void *p, void (*end)(struct blk_cmd *, int));
void blk_cmd_fallocate(struct blk_cmd *cmd, int mode, void (*end)(struct blk_cmd *cmd, int res));
void blk_cmd_fsync(struct blk_cmd *cmd, void (*end)(struct blk_cmd *cmd, int res));
void blk_cmd_sync(struct blk_cmd *cmd); /* fsync, then the command ends */
/* Sets off and left from SLBA and NLB. */
uint16_t blk_cmd_range(struct blk_cmd *cmd, uint64_t slba, uint64_t nlb);

/* The commands; cmd is zeroed apart from iov, x, vi and run, the range is checked. */
void blk_rw_read(struct blk_cmd *cmd);
void blk_rw_write(struct blk_cmd *cmd);
void blk_rw_compare(struct blk_cmd *cmd);
void blk_trim_zeroes(struct blk_cmd *cmd);
void blk_trim_dsm(struct blk_cmd *cmd);

uint16_t blk_identify(struct tgt_ns *ns, uint8_t cns, void *buf);

#endif
