/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal log LID: the controller's log pages 01h to 05h, decoded (NVMe Base 2.0, 5.16.1).
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/le.h"
#include "cli/cli.h"
#include "nvme/nvme_str.h"

#define LOG_BYTES 4096

static void log_errors(const uint8_t *page)
{
	const struct nvme_error_log_page *e = (const struct nvme_error_log_page *)page;
	unsigned n = 0;

	for (; n < LOG_BYTES / sizeof(*e) && le64_get(&e[n].error_count); n++) {
		uint16_t status = le16_get(&e[n].status_field) >> 1;

		printf("error %llu  queue %d  command %04xh  namespace %u  %s (%03xh)\n",
		       (unsigned long long)le64_get(&e[n].error_count),
		       (int16_t)le16_get(&e[n].sqid), le16_get(&e[n].cmdid), le32_get(&e[n].nsid),
		       nvme_str_status(status), status & 0x7ff);
	}
	if (!n)
		printf("no errors\n");
}

static void log_smart(const uint8_t *page)
{
	const struct nvme_smart_log *l = (const struct nvme_smart_log *)page;
	const struct {
		const char *name;
		uint64_t v;
	} rows[] = {
		{"critical warning", l->critical_warning},
		{"available spare %", l->avail_spare},
		{"spare threshold %", l->spare_thresh},
		{"percentage used", l->percent_used},
		{"data units read (512,000 B)", le64_get(l->data_units_read)},
		{"data units written (512,000 B)", le64_get(l->data_units_written)},
		{"read commands", le64_get(l->host_reads)},
		{"write commands", le64_get(l->host_writes)},
		{"busy minutes", le64_get(l->ctrl_busy_time)},
		{"power cycles", le64_get(l->power_cycles)},
		{"power on hours", le64_get(l->power_on_hours)},
		{"unsafe shutdowns", le64_get(l->unsafe_shutdowns)},
		{"media errors (bad seals)", le64_get(l->media_errors)},
		{"error log entries", le64_get(l->num_err_log_entries)},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		printf("%-32s %llu\n", rows[i].name, (unsigned long long)rows[i].v);
}

static void log_firmware(const uint8_t *page)
{
	const struct nvme_firmware_slot *l = (const struct nvme_firmware_slot *)page;

	printf("active slot %u\n", l->afi & 7);
	for (unsigned i = 0; i < 7; i++)
		if (l->frs[i][0])
			printf("slot %u      %.8s\n", i + 1, (const char *)l->frs[i]);
}

static void log_changed(const uint8_t *page)
{
	unsigned n = 0;

	for (; n < LOG_BYTES / 4 && le32_get(page + 4 * n); n++)
		if (le32_get(page + 4 * n) == UINT32_MAX)
			printf("more than fit: all may have changed\n");
		else
			printf("namespace %u\n", le32_get(page + 4 * n));
	if (!n)
		printf("no namespace changed since this was last read\n");
}

static void log_effect(const char *set, unsigned opc, uint32_t e, const char *name)
{
	if (!(e & 1))
		return;
	printf("%-6s %02xh  %-28s%s%s%s%s\n", set, opc, name, e & 2 ? " changes-content" : "",
	       e & 4 ? " changes-namespaces" : "", e & 8 ? " changes-inventory" : "",
	       e & 16 ? " changes-capabilities" : "");
}

static void log_effects(const uint8_t *page)
{
	for (unsigned i = 0; i < 256; i++)
		log_effect("admin", i, le32_get(page + 4 * i), nvme_str_admin_opcode((uint8_t)i));
	for (unsigned i = 0; i < 256; i++)
		log_effect("kv", i, le32_get(page + 1024 + 4 * i), nvme_str_kv_opcode((uint8_t)i));
}

static const struct log_page {
	uint8_t lid;
	uint32_t bytes;
	const char *name;
	void (*print)(const uint8_t *page);
} log_pages[] = {
	{NVME_LOG_LID_ERROR, 4096, "errors", log_errors},
	{NVME_LOG_LID_SMART, 512, "health", log_smart},
	{NVME_LOG_LID_FW_SLOT, 512, "firmware", log_firmware},
	{NVME_LOG_LID_CHANGED_NS, 4096, "changed namespaces", log_changed},
	{NVME_LOG_LID_CMD_EFFECTS, 4096, "commands and effects", log_effects},
};
#define LOG_NR_PAGES (sizeof(log_pages) / sizeof(log_pages[0]))

static error_t log_parse_opt(int key, char *arg, struct argp_state *state)
{
	const struct log_page **page = state->input;
	uint64_t lid;

	switch (key) {
	case ARGP_KEY_ARG:
		lid = cli_number("LID", arg, 1, 5);
		for (size_t i = 0; i < LOG_NR_PAGES; i++)
			if (log_pages[i].lid == lid)
				*page = &log_pages[i];
		if (state->arg_num)
			argp_error(state, "'%s' is too much, expected one of 1 to 5", arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no page given, expected one of 1 to 5");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int log_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = log_parse_opt,
		.args_doc = "LID",
		.doc = "Shows a log page: 1 errors, 2 health, 3 firmware, 4 changed namespaces, "
		       "5 commands and effects.",
	};
	const struct log_page *page = NULL;
	uint8_t buf[LOG_BYTES] __attribute__((aligned(8))) = {0};
	int rc;

	cli_parse(&argp, c, argc, argv, &page);
	rc = cli_open(c);
	if (!rc)
		rc = cli_result(peal_log(c->p, page->lid, 0, buf, page->bytes));
	if (!rc)
		page->print(buf);
	return rc;
}

const struct cli_cmd cmd_log = {"log", "LID", "log pages 1 to 5, decoded", log_run};
