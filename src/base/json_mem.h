/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for jansson, by json_set_alloc_funcs(json_mem_alloc, json_mem_free). Without memory
 * jansson leaves out of a document what it is given, and its parser (2.14, lex_save() of load.c)
 * goes on with a text that lacks characters, past its end. So there is a reserve, which lasts until
 * a document is over, and a count: who has built or parsed something while it changed throws that
 * away and says that there was no memory. Any thread.
 */
#ifndef BASE_JSON_MEM_H
#define BASE_JSON_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Twice the longest message of the control plane, whose texts are read into doubling buffers. */
#define JSON_MEM_RESERVE_BYTES (4u << 20)

/* malloc(), else of the reserve, else NULL. What json_dumps() gives is given back here, too. */
void *json_mem_alloc(size_t n);
/* Of the reserve. NULL: it is used up, until all of it has been given back. */
void *json_mem_reserve(size_t n);
void json_mem_free(void *p);
/* How often there was no memory, ever. */
uint64_t json_mem_failed(void);

#endif
