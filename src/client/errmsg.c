/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error texts and the translation of NVMe statuses, see errmsg.h. The buffer is thread-local: the
 * library stands above no reactor, and peal_errmsg() promises "of this thread".
 */
#include "client/errmsg.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "nvme/nvme_kv.h"
#include "nvme/nvme_str.h"
#include "peal/vendor.h"

static _Thread_local char errmsg_text[512] = "no error";

int errmsg_set(int err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(errmsg_text, sizeof(errmsg_text), fmt, ap);
	va_end(ap);
	errno = saved;
	return err;
}

const char *errmsg_key(const struct peal_key *k, char buf[ERRMSG_KEY_BYTES])
{
	uint8_t len = k->len <= PEAL_KEY_MAX ? k->len : PEAL_KEY_MAX;
	bool is_text = len > 0;

	for (unsigned i = 0; i < len; i++)
		is_text = is_text && isgraph(k->b[i]);
	if (is_text && !(len > 1 && k->b[0] == '0' && k->b[1] == 'x'))
		snprintf(buf, ERRMSG_KEY_BYTES, "'%.*s'", len, (const char *)k->b);
	else
		format_key(k->b, len, buf);
	return buf;
}

int errmsg_errno(uint16_t status)
{
	switch (status & 0x7ff) {
	case NVME_ST_OK:
		return 0;
	case NVME_ST_KEY_NOT_FOUND:
	case NVME_ST_UNRECOVERED: /* bytes that failed their check: doubt is a miss */
		return -ENOENT;
	case NVME_ST_KEY_EXISTS:
		return -EEXIST;
	case NVME_ST_CAPACITY_EXCEEDED:
	case NVME_ST_NS_INSUFFICIENT_CAPACITY:
	case NVME_ST_NS_ID_UNAVAILABLE:
		return -ENOSPC;
	case NVME_ST_INVALID_VALUE_SIZE:
		return -EFBIG;
	case NVME_ST_INVALID_KEY_SIZE:
	case NVME_ST_INVALID_FIELD:
	case NVME_ST_INVALID_NS:
	case NVME_ST_INVALID_LOG:
	case PEAL_ST_CLASS:
		return -EINVAL;
	case NVME_ST_INVALID_OPCODE:
		return -EOPNOTSUPP;
	case NVME_ST_NS_WRITE_PROTECTED:
		return -EACCES;
	case NVME_ST_OP_DENIED:
		return -EPERM;
	case NVME_ST_NS_NOT_READY:
	case NVME_ST_ABORTED:
	case NVME_ST_INTERRUPTED: /* a bound was hit */
	case NVME_ST_TRANSIENT_TRANSPORT:
		return -EAGAIN;
	case NVME_ST_ABORTED_SQ_DELETED:
		return -ENOTCONN;
	case NVME_ST_DATA_TRANSFER:
		return -EFAULT;
	default:
		return -EIO;
	}
}

int errmsg_status(uint16_t status, const char *verb, const struct peal_key *k)
{
	int err = errmsg_errno(status);
	char key[ERRMSG_KEY_BYTES];

	if (!err)
		return 0;
	if (!k)
		return errmsg_set(err, "%s: the daemon answered %s (%03xh)", verb,
				  nvme_str_status(status), status & 0x7ff);
	return errmsg_set(err, "%s %s: %s (%03xh)", verb, errmsg_key(k, key),
			  nvme_str_status(status), status & 0x7ff);
}

const char *peal_errmsg(void)
{
	return errmsg_text;
}
