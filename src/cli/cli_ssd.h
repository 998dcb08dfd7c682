/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the health of SSD tiers and of their devices, as the RPC `stats` tells it, reads in a line:
 * for stat and top. One thread.
 */
#ifndef CLI_CLI_SSD_H
#define CLI_CLI_SSD_H

#include <jansson.h>
#include <stdbool.h>

#define CLI_SSD_BYTES 512

/* Of a tier's "health". False: it has none, or there is nothing to tell. */
bool cli_ssd_tier(const json_t *tier, char text[CLI_SSD_BYTES]);
/* One device of a tier that lies on several, of `stats`. */
void cli_ssd_part(const json_t *part, char text[CLI_SSD_BYTES]);
/* Of one of "devices". */
void cli_ssd_device(const json_t *device, char text[CLI_SSD_BYTES]);

#endif
