/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All methods, one name each, and the list of them in the order of the documents: rpc_table.c. A
 * new method is a struct in an rpc_*.c file, a line here and a line there.
 */
#ifndef CTL_CTL_RPC_H
#define CTL_CTL_RPC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ctl/ctl_int.h"

/* rpc_daemon.c */
extern const struct rpc_method rpc_daemon_methods, rpc_daemon_info, rpc_daemon_config,
	rpc_daemon_log_level;
/* rpc_ns.c */
extern const struct rpc_method rpc_ns_list, rpc_ns_create, rpc_ns_resize, rpc_ns_delete,
	rpc_ns_flush;
/* rpc_key.c */
extern const struct rpc_method rpc_key_where, rpc_key_purge, rpc_key_usage;
/* rpc_client.c */
extern const struct rpc_method rpc_client_list;
/* rpc_class.c */
extern const struct rpc_method rpc_class_list, rpc_class_add, rpc_class_remove;
json_t *rpc_class_describe(const struct kv_class *k);
/* rpc_hold.c */
extern const struct rpc_method rpc_hold_quiesce, rpc_hold_resume;
/* rpc_ssd.c */
struct store_health;
struct store_part;
extern const struct rpc_method rpc_ssd_list, rpc_ssd_wear, rpc_ssd_state, rpc_ssd_budget,
	rpc_ssd_drain, rpc_ssd_bad, rpc_ssd_bad_clear;
json_t *rpc_ssd_part(const struct store_part *p);
json_t *rpc_ssd_tier(const struct store_health *h);
json_t *rpc_ssd_devices(const struct ctl *c);
/* rpc_stats.c */
extern const struct rpc_method rpc_stats_get;

#endif
