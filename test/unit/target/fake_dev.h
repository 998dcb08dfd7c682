/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device half of fake_tr: queues with pollers, the DMA map, tgt_ctrl_ops. What a vfio-user
 * server does, without the socket. Its host rings by fake_dev_ring() and moves CQ heads by
 * fake_dev_cq_head().
 */
#pragma once

#include "fake_tr.h"

struct fake_dev *fake_dev_create(struct fake_tr *t, const struct fake_tr_opts *o);
void fake_dev_destroy(struct fake_dev *d); /* steps until the controller is down */
struct tgt_ctrl *fake_dev_ctrl(struct fake_dev *d);
void fake_dev_map(struct fake_dev *d, uint64_t addr, void *base, uint64_t len);
void fake_dev_unmap(struct fake_dev *d, uint64_t addr); /* the map that covers it */
void fake_dev_ring(struct fake_dev *d, uint16_t qid, uint32_t tail);
void fake_dev_cq_head(struct fake_dev *d, uint16_t qid, uint32_t head);
unsigned fake_dev_nr_fatal(struct fake_dev *d); /* calls of ops->fatal */
