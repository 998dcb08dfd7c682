/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon is to be: everything that the configuration file and the command line say,
 * checked and complete. The file is read first, the command line overrides it, conf_finish() fills
 * in what neither said and looks at how it fits together.
 *
 *   conf_init -> conf_yaml_load (file) -> opt_args_parse (command line) -> conf_finish -> build
 *
 * Errors are one line that names the file, the line in it, the value and what was expected. Main
 * thread, before there are others; constant afterwards.
 */
#ifndef CTL_CONF_H
#define CTL_CONF_H

#include "ctl/opt.h"
#include "kv/kv.h"
#include "store/rados/ceph_words.h"

#define CONF_NS_MAX 64
#define CONF_NAME_BYTES 64
#define CONF_TIERS_MAX 4
#define CONF_BLOCKS_MAX 8
#define CONF_CLASSES_MAX KV_CLASSES_MAX /* of a namespace */
#define CONF_ERR_BYTES 1024
#define CONF_SOCKET_BYTES 108 /* sun_path */
#define CONF_NS_BYTES_MIN (1u << 20)
#define CONF_BYTES_MAX (1ull << 46)
#define CONF_DAY_BYTES_MAX (1ull << 56)
#define CONF_RATE_BYTES_MIN (1u << 20)
#define CONF_HOST_BYTES 64 /* of a numeric address */
#define CONF_HOSTS_BYTES 1024
#define CONF_HTTP_PORT 9440

enum conf_tier_kind {
	CONF_TIER_DRAM,
	CONF_TIER_SSD,
	CONF_TIER_RADOS,
};

struct conf_device {
	char path[512];
	uint64_t bytes;
};

struct conf_tier {
	uint8_t kind;	     /* enum conf_tier_kind */
	uint64_t bytes;	     /* of all devices together */
	unsigned nr_devices; /* of kinds that lie somewhere */
	struct conf_device devices[KV_DEVICES_MAX];
	struct ceph_words rados; /* of a rados tier: pool is there */
};

/* Where a Store must have arrived before it is answered. */
enum conf_ack {
	CONF_ACK_DRAM,
	CONF_ACK_SSD,
	CONF_ACK_RADOS,
};

/* When memory writes to the tier below: when it needs the room, or at once. */
enum conf_write {
	CONF_WRITE_BACK,
	CONF_WRITE_THROUGH,
};

struct conf_ns {
	char name[CONF_NAME_BYTES];
	uint64_t bytes;
	uint32_t value_max; /* 0: the daemon's */
	uint32_t max_keys;  /* 0: the daemon's */
	bool is_immutable, has_immutable;
	bool is_read_only;
	uint8_t ack;	     /* enum conf_ack */
	uint8_t write;	     /* enum conf_write */
	uint64_t day_bytes;  /* that go to its SSD; 0: no limit */
	uint64_t rate_bytes; /* likewise a second */
	unsigned line;	     /* in the file; 0: the command line's */
	unsigned nr_tiers;
	struct conf_tier tiers[CONF_TIERS_MAX];
	unsigned nr_classes;
	struct kv_class *classes; /* owned */
};

/* A block namespace: its NSID comes behind those of ns. */
struct conf_block {
	char path[512];
	uint64_t size_bytes; /* 0 = the file's */
	uint32_t lba_bytes;
};

struct conf_vfu {
	char dir[CONF_SOCKET_BYTES - 6]; /* "/cntrl" */
	char record[1024];		 /* "": off */
	bool is_record_all;
	bool is_record_values;
	uint32_t max_clients;
};

struct conf_tcp {
	char host[CONF_HOST_BYTES]; /* numeric; "": off */
	uint16_t port;
	uint32_t max_conns;
	char hosts[CONF_HOSTS_BYTES]; /* their NQNs, a comma between; "": any */
	char secrets[512];	      /* a file; "": they needn't prove it */
};

/* All SSD tiers of the daemon. */
struct conf_ssd {
	char smart[512]; /* "auto", "none", a file */
	uint64_t min_free_bytes;
	uint64_t cap_bytes;	  /* of a folder's files; 0: none */
	uint64_t endurance_bytes; /* 0: not known */
	uint16_t warn_used, stop_used;
};

struct conf {
	char file[1024]; /* "": none */
	bool is_check;	 /* --check-config */
	uint64_t dram_bytes;
	uint64_t linger_s; /* 0: for ever */
	uint64_t poll_ns;
	uint32_t nr_reactors;
	uint32_t value_max;
	uint32_t max_keys;
	bool is_busy;
	bool is_immutable;		 /* of the namespaces that don't say */
	uint8_t log_level;		 /* enum log_level */
	char http_host[CONF_HOST_BYTES]; /* numeric; "": no HTTP */
	uint16_t http_port;
	char id[CONF_NAME_BYTES];	    /* "": of this machine and dir */
	char rpc_socket[CONF_SOCKET_BYTES]; /* "none": no RPC */
	struct conf_ssd ssd;
	struct conf_vfu vfu;
	struct conf_tcp tcp;
	bool has_ns_args; /* --ns was given: the file's namespaces are forgotten */
	uint32_t nr_ns;
	struct conf_ns ns[CONF_NS_MAX];
	uint32_t nr_blocks;
	struct conf_block blocks[CONF_BLOCKS_MAX];
};

/* The rows: conf_table.c, conf_rows.c. */
extern const struct opt_group conf_daemon, conf_vfu, conf_tcp, conf_namespace, conf_class;
/* The transports that a file may name. */
extern const struct opt_group *const conf_transports[];
extern const unsigned conf_nr_transports;

/* The kinds of tiers, indexed by enum conf_tier_kind: conf_tier.c. */
struct conf_tier_row {
	const char *name;
	const char *args; /* as a man page has it */
	const char *help;
};
extern const struct conf_tier_row conf_tier_rows[];
extern const unsigned conf_nr_tier_rows;
/* "dram 8G | ssd PATH 500G, PATH 500G | rados pool=kv". 0 or -EINVAL and what was expected. */
int conf_tier_parse(struct conf_ns *ns, const char *text, char expected[OPT_EXPECTED_BYTES]);
void conf_tier_print(const struct conf_ns *ns, char value[OPT_VALUE_BYTES]);

/* "ADDR:PORT", "PORT" and ":PORT" on the loopback, "[ADDR]:PORT", "none". 0 or -EINVAL. */
int conf_listen_parse(const char *text, char host[CONF_HOST_BYTES], uint16_t *port);
void conf_listen_print(const char *host, uint16_t port, char value[OPT_VALUE_BYTES]);

/* "FILE[,size=SIZE][,lba=512|4096]": one more. 0 or -EINVAL and what was expected. */
int conf_block_parse(struct conf *c, const char *text, char expected[OPT_EXPECTED_BYTES]);

struct conf *conf_create(void); /* defaults; NULL = no memory */
void conf_destroy(struct conf *c);
void conf_ns_clear(struct conf *c); /* forgets all namespaces */
/* A zeroed one with its defaults, or NULL: there are CONF_NS_MAX. */
struct conf_ns *conf_ns_add(struct conf *c);
/* NULL: there are CONF_CLASSES_MAX, or no memory. */
struct kv_class *conf_class_add(struct conf_ns *ns);

/* Reads the file over what is there. 0, or -errno and one line in err. */
int conf_yaml_load(struct conf *c, const char *path, char err[CONF_ERR_BYTES]);
/* The same from memory; `path` is for messages. */
int conf_yaml_parse(struct conf *c, const char *path, const void *text, size_t bytes,
		    char err[CONF_ERR_BYTES]);
/* What comes from the file must not command a terminal: control characters become '?'. */
void conf_err_clean(char err[CONF_ERR_BYTES]);
/* May a namespace be called so? Numbers name namespaces, too, so digits alone are no name. */
#define CONF_NAME_EXPECTED \
	"a name of 1 to 63 bytes of UTF-8, without control characters, not of digits alone"
bool conf_name_check(const char *text);
/* What nobody said, and whether it fits together. */
int conf_finish(struct conf *c, char err[CONF_ERR_BYTES]);

/* MemAvailable of /proc/meminfo, bytes; 0 when it can't be read. */
uint64_t conf_mem_available(void);

/*
 * peald's command line: --config's file is read, the rest is laid over it, conf_finish(). Does not
 * return on --help, --version, --check-config and errors (status 2).
 */
void opt_args_parse(int argc, char **argv, struct conf *c);

#endif
