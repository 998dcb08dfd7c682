/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers to names; nvme_str.h has the promises. The base specification's numbers come from
 * libnvme's header, those of the KV set from nvme_kv.h, Peal's own from peal/vendor.h. Constant
 * tables.
 */
#include "nvme/nvme_str.h"

#include <nvme/types.h>

#include "base/container.h"
#include "nvme/nvme_kv.h"
#include "peal/vendor.h"

struct nvme_str {
	uint16_t code;
	const char *text;
};

static const struct nvme_str nvme_str_admin[] = {
	{nvme_admin_delete_sq, "Delete I/O Submission Queue"},
	{nvme_admin_create_sq, "Create I/O Submission Queue"},
	{nvme_admin_get_log_page, "Get Log Page"},
	{nvme_admin_delete_cq, "Delete I/O Completion Queue"},
	{nvme_admin_create_cq, "Create I/O Completion Queue"},
	{nvme_admin_identify, "Identify"},
	{nvme_admin_abort_cmd, "Abort"},
	{nvme_admin_set_features, "Set Features"},
	{nvme_admin_get_features, "Get Features"},
	{nvme_admin_async_event, "Asynchronous Event Request"},
	{nvme_admin_ns_mgmt, "Namespace Management"},
	{nvme_admin_fw_commit, "Firmware Commit"},
	{nvme_admin_fw_download, "Firmware Image Download"},
	{nvme_admin_dev_self_test, "Device Self-test"},
	{nvme_admin_ns_attach, "Namespace Attachment"},
	{nvme_admin_keep_alive, "Keep Alive"},
	{nvme_admin_directive_send, "Directive Send"},
	{nvme_admin_directive_recv, "Directive Receive"},
	{nvme_admin_virtual_mgmt, "Virtualization Management"},
	{nvme_admin_nvme_mi_send, "NVMe-MI Send"},
	{nvme_admin_nvme_mi_recv, "NVMe-MI Receive"},
	{nvme_admin_capacity_mgmt, "Capacity Management"},
	{nvme_admin_lockdown, "Lockdown"},
	{nvme_admin_dbbuf, "Doorbell Buffer Config"},
	{nvme_admin_fabrics, "Fabrics"},
	{nvme_admin_format_nvm, "Format NVM"},
	{nvme_admin_security_send, "Security Send"},
	{nvme_admin_security_recv, "Security Receive"},
	{nvme_admin_sanitize_nvm, "Sanitize"},
	{nvme_admin_get_lba_status, "Get LBA Status"},
};

static const struct nvme_str nvme_str_nvm[] = {
	{nvme_cmd_flush, "Flush"},
	{nvme_cmd_write, "Write"},
	{nvme_cmd_read, "Read"},
	{nvme_cmd_write_uncor, "Write Uncorrectable"},
	{nvme_cmd_compare, "Compare"},
	{nvme_cmd_write_zeroes, "Write Zeroes"},
	{nvme_cmd_dsm, "Dataset Management"},
	{nvme_cmd_verify, "Verify"},
	{nvme_cmd_copy, "Copy"},
};

static const struct nvme_str nvme_str_kv[] = {
	{NVME_KV_FLUSH, "Flush"},
	{NVME_KV_STORE, "Store"},
	{NVME_KV_RETRIEVE, "Retrieve"},
	{NVME_KV_LIST, "List"},
	{nvme_cmd_resv_register, "Reservation Register"},
	{nvme_cmd_resv_report, "Reservation Report"},
	{NVME_KV_DELETE, "Delete"},
	{nvme_cmd_resv_acquire, "Reservation Acquire"},
	{NVME_KV_EXIST, "Exist"},
	{nvme_cmd_resv_release, "Reservation Release"},
	{PEAL_OPC_STORE_EX, "STORE_EX"},
	{PEAL_OPC_RETRIEVE_EX, "RETRIEVE_EX"},
	{PEAL_OPC_EXEC, "EXEC"},
	{PEAL_OPC_MATCH, "MATCH"},
	{PEAL_OPC_HINT, "HINT"},
	{PEAL_OPC_LEASE, "LEASE"},
	{PEAL_OPC_RELEASE, "RELEASE"},
};

static const struct nvme_str nvme_str_fabrics[] = {
	{nvme_fabrics_type_property_set, "Property Set"},
	{nvme_fabrics_type_connect, "Connect"},
	{nvme_fabrics_type_property_get, "Property Get"},
	{nvme_fabrics_type_auth_send, "Authentication Send"},
	{nvme_fabrics_type_auth_receive, "Authentication Receive"},
	{nvme_fabrics_type_disconnect, "Disconnect"},
};

#define GENERIC(sc) (NVME_SCT_GENERIC << NVME_SCT_SHIFT | (sc))
#define SPECIFIC(sc) (NVME_SCT_CMD_SPECIFIC << NVME_SCT_SHIFT | (sc))
#define MEDIA(sc) (NVME_SCT_MEDIA << NVME_SCT_SHIFT | (sc))
#define PATH(sc) (NVME_SCT_PATH << NVME_SCT_SHIFT | (sc))

static const struct nvme_str nvme_str_statuses[] = {
	{GENERIC(NVME_SC_SUCCESS), "Successful Completion"},
	{GENERIC(NVME_SC_INVALID_OPCODE), "Invalid Command Opcode"},
	{GENERIC(NVME_SC_INVALID_FIELD), "Invalid Field in Command"},
	{GENERIC(NVME_SC_CMDID_CONFLICT), "Command ID Conflict"},
	{GENERIC(NVME_SC_DATA_XFER_ERROR), "Data Transfer Error"},
	{GENERIC(NVME_SC_POWER_LOSS), "Commands Aborted due to Power Loss Notification"},
	{GENERIC(NVME_SC_INTERNAL), "Internal Error"},
	{GENERIC(NVME_SC_ABORT_REQ), "Command Abort Requested"},
	{GENERIC(NVME_SC_ABORT_QUEUE), "Command Aborted due to SQ Deletion"},
	{GENERIC(NVME_SC_FUSED_FAIL), "Command Aborted due to Failed Fused Command"},
	{GENERIC(NVME_SC_FUSED_MISSING), "Command Aborted due to Missing Fused Command"},
	{GENERIC(NVME_SC_INVALID_NS), "Invalid Namespace or Format"},
	{GENERIC(NVME_SC_CMD_SEQ_ERROR), "Command Sequence Error"},
	{GENERIC(NVME_SC_SGL_INVALID_LAST), "Invalid SGL Segment Descriptor"},
	{GENERIC(NVME_SC_SGL_INVALID_COUNT), "Invalid Number of SGL Descriptors"},
	{GENERIC(NVME_SC_SGL_INVALID_DATA), "Data SGL Length Invalid"},
	{GENERIC(NVME_SC_SGL_INVALID_METADATA), "Metadata SGL Length Invalid"},
	{GENERIC(NVME_SC_SGL_INVALID_TYPE), "SGL Descriptor Type Invalid"},
	{GENERIC(NVME_SC_CMB_INVALID_USE), "Invalid Use of Controller Memory Buffer"},
	{GENERIC(NVME_SC_PRP_INVALID_OFFSET), "PRP Offset Invalid"},
	{GENERIC(NVME_SC_OP_DENIED), "Operation Denied"},
	{GENERIC(NVME_SC_SGL_INVALID_OFFSET), "SGL Offset Invalid"},
	{GENERIC(NVME_SC_HOSTID_FORMAT), "Host Identifier Inconsistent Format"},
	{GENERIC(NVME_SC_KAT_EXPIRED), "Keep Alive Timer Expired"},
	{GENERIC(NVME_SC_KAT_INVALID), "Keep Alive Timeout Invalid"},
	{GENERIC(NVME_SC_CMD_ABORTED_PREMEPT), "Command Aborted due to Preempt and Abort"},
	{GENERIC(NVME_SC_SGL_INVALID_GRANULARITY), "SGL Data Block Granularity Invalid"},
	{GENERIC(NVME_SC_NS_WRITE_PROTECTED), "Namespace is Write Protected"},
	{GENERIC(NVME_SC_CMD_INTERRUPTED), "Command Interrupted"},
	{GENERIC(NVME_SC_TRAN_TPORT_ERROR), "Transient Transport Error"},
	{GENERIC(NVME_SC_CAP_EXCEEDED), "Capacity Exceeded"},
	{GENERIC(NVME_SC_NS_NOT_READY), "Namespace Not Ready"},
	{GENERIC(NVME_SC_RESERVATION_CONFLICT), "Reservation Conflict"},
	{GENERIC(NVME_SC_FORMAT_IN_PROGRESS), "Format In Progress"},
	{NVME_ST_INVALID_VALUE_SIZE, "Invalid Value Size"},
	{NVME_ST_INVALID_KEY_SIZE, "Invalid Key Size"},
	{NVME_ST_KEY_NOT_FOUND, "Key Does Not Exist"},
	{NVME_ST_UNRECOVERED, "Unrecovered Error"},
	{NVME_ST_KEY_EXISTS, "Key Exists"},
	{SPECIFIC(NVME_SC_CQ_INVALID), "Completion Queue Invalid"},
	{SPECIFIC(NVME_SC_QID_INVALID), "Invalid Queue Identifier"},
	{SPECIFIC(NVME_SC_QUEUE_SIZE), "Invalid Queue Size"},
	{SPECIFIC(NVME_SC_ABORT_LIMIT), "Abort Command Limit Exceeded"},
	{SPECIFIC(NVME_SC_ASYNC_LIMIT), "Asynchronous Event Request Limit Exceeded"},
	{SPECIFIC(NVME_SC_INVALID_VECTOR), "Invalid Interrupt Vector"},
	{SPECIFIC(NVME_SC_INVALID_LOG_PAGE), "Invalid Log Page"},
	{SPECIFIC(NVME_SC_INVALID_QUEUE), "Invalid Queue Deletion"},
	{SPECIFIC(NVME_SC_FEATURE_NOT_SAVEABLE), "Feature Identifier Not Saveable"},
	{SPECIFIC(NVME_SC_FEATURE_NOT_CHANGEABLE), "Feature Not Changeable"},
	{SPECIFIC(NVME_SC_FEATURE_NOT_PER_NS), "Feature Not Namespace Specific"},
	{SPECIFIC(NVME_SC_NS_INSUFFICIENT_CAP), "Namespace Insufficient Capacity"},
	{SPECIFIC(NVME_SC_NS_ID_UNAVAILABLE), "Namespace Identifier Unavailable"},
	{SPECIFIC(NVME_SC_NS_ALREADY_ATTACHED), "Namespace Already Attached"},
	{SPECIFIC(NVME_SC_NS_NOT_ATTACHED), "Namespace Not Attached"},
	{SPECIFIC(NVME_SC_INVALID_CTRL_ID), "Invalid Controller Identifier"},
	{SPECIFIC(NVME_SC_IOCS_NOT_SUPPORTED), "I/O Command Set Not Supported"},
	{SPECIFIC(NVME_SC_IOCS_NOT_ENABLED), "I/O Command Set Not Enabled"},
	{SPECIFIC(NVME_SC_IOCS_COMBINATION_REJECTED), "I/O Command Set Combination Rejected"},
	{SPECIFIC(NVME_SC_INVALID_IOCS), "Invalid I/O Command Set"},
	{SPECIFIC(NVME_SC_READ_ONLY), "Attempted Write to Read Only Range"},
	{PEAL_ST_CLASS, "Class Not Registered"},
	{MEDIA(NVME_SC_WRITE_FAULT), "Write Fault"},
	{MEDIA(NVME_SC_READ_ERROR), "Unrecovered Read Error"},
	{MEDIA(NVME_SC_ACCESS_DENIED), "Access Denied"},
	{PATH(NVME_SC_ANA_INTERNAL_PATH_ERROR), "Internal Path Error"},
	{PATH(NVME_SC_ANA_PERSISTENT_LOSS), "Asymmetric Access Persistent Loss"},
	{PATH(NVME_SC_ANA_INACCESSIBLE), "Asymmetric Access Inaccessible"},
	{PATH(NVME_SC_ANA_TRANSITION), "Asymmetric Access Transition"},
	{PATH(NVME_SC_CTRL_PATH_ERROR), "Controller Pathing Error"},
	{PATH(NVME_SC_HOST_PATH_ERROR), "Host Pathing Error"},
	{PATH(NVME_SC_CMD_ABORTED_BY_HOST), "Command Aborted By Host"},
};

static const char *nvme_str_find(const struct nvme_str *tab, unsigned nr, uint16_t code)
{
	for (unsigned i = 0; i < nr; i++)
		if (tab[i].code == code)
			return tab[i].text;
	return "unknown";
}

const char *nvme_str_admin_opcode(uint8_t opc)
{
	return nvme_str_find(nvme_str_admin, ARRAY_SIZE(nvme_str_admin), opc);
}

const char *nvme_str_kv_opcode(uint8_t opc)
{
	return nvme_str_find(nvme_str_kv, ARRAY_SIZE(nvme_str_kv), opc);
}

const char *nvme_str_nvm_opcode(uint8_t opc)
{
	return nvme_str_find(nvme_str_nvm, ARRAY_SIZE(nvme_str_nvm), opc);
}

const char *nvme_str_fabrics_type(uint8_t fctype)
{
	return nvme_str_find(nvme_str_fabrics, ARRAY_SIZE(nvme_str_fabrics), fctype);
}

const char *nvme_str_status(uint16_t status)
{
	return nvme_str_find(nvme_str_statuses, ARRAY_SIZE(nvme_str_statuses), status & 0x7ff);
}
