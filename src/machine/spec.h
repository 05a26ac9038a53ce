/* What a machine is, as kept in DATA/machines/<name>/machine.json. */
#ifndef GB_MACHINE_SPEC_H
#define GB_MACHINE_SPEC_H

#include "base/err.h"
#include "base/str.h"

#define GB_WORK_PATH          "/work" /* where the machine's directory is inside */
#define GB_MACHINE_SHARES_MAX 32

struct gb_machine_share {
	char *host;  /* absolute host folder */
	char *guest; /* absolute guest path */
	bool rdonly;
};

/* All strings are owned; "" where there is nothing to say, never NULL in a loaded one. */
struct gb_machine_spec {
	char *name;
	char *id;        /* 32 hex digits, the guest's machine-id; made at create */
	char *image;     /* digest; "" when root is used */
	char *image_ref; /* what the user asked for */
	char *root;      /* a raw ext4 used in place (run --root), else "" */
	char *directory; /* host folder at /work, "" for none */
	char *user;      /* default user inside; "" is root */
	char *workdir;   /* default working directory inside; "" is "/" */
	struct gb_strv env;
	struct gb_machine_share shares[GB_MACHINE_SHARES_MAX]; /* beside /work */
	size_t share_count;
	uint32_t cpus;
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	char *accel;   /* auto|kvm|hvf|tcg */
	char *kernel;  /* "" for the default */
	char *modules; /* "" for the default */
	int64_t created_s;
	bool ephemeral; /* run --rm: the folder goes when the supervisor ends */
};

void gb_machine_spec_init(struct gb_machine_spec *s); /* all "" and 0 */
void gb_machine_spec_done(struct gb_machine_spec *s);
/* Replace an owned string; false when memory is out. */
bool gb_spec_set(char **field, const char *value);
int gb_machine_spec_add_share(struct gb_machine_spec *s, const char *host, const char *guest,
	bool rdonly, struct gb_err *err);
/* JSON text, owned. */
int gb_machine_spec_to_json(const struct gb_machine_spec *s, char **ret, struct gb_err *err);
int gb_machine_spec_from_json(const char *text, size_t len, struct gb_machine_spec *ret,
	struct gb_err *err);
/* Limits: cpus 1..64, memory 128 MiB..1 TiB, disk 64 MiB..16 TiB, names, absolute paths. */
int gb_machine_spec_check(const struct gb_machine_spec *s, struct gb_err *err);

#endif
