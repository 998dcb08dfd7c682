/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admin commands that only operators may issue, for what has no function in peal.h: peal(1)'s
 * instruments. Any thread.
 */
#pragma once

#include "client/conn.h"

/* Executes it within the call's deadline. 0; -EACCES when the connection isn't an operator's;
 * -errno with a message that names `verb`. */
int ns_admin(struct peal *p, const char *verb, struct conn_admin_cmd *cmd);
