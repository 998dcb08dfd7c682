/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the RPC socket, in the order of doc/rpc.md. Constant.
 * tidy: no-test: a list
 */
#include "ctl/ctl_rpc.h"

/* clang-format off */
const struct rpc_method *const rpc_table_methods[] = {
	&rpc_daemon_methods,
	&rpc_daemon_info,
	&rpc_daemon_config,
	&rpc_daemon_log_level,
	&rpc_stats_get,
	&rpc_client_list,
	&rpc_hold_quiesce,
	&rpc_hold_resume,
	&rpc_ns_list,
	&rpc_ns_create,
	&rpc_ns_resize,
	&rpc_ns_delete,
	&rpc_ns_flush,
	&rpc_class_list,
	&rpc_class_add,
	&rpc_class_remove,
	&rpc_key_purge,
	&rpc_key_usage,
	&rpc_key_where,
	&rpc_ssd_list,
	&rpc_ssd_wear,
	&rpc_ssd_state,
	&rpc_ssd_budget,
	&rpc_ssd_drain,
	&rpc_ssd_bad,
	&rpc_ssd_bad_clear,
	NULL,
};
/* clang-format on */
