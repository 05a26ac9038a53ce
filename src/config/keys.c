#include "config/keys.h"

#include "base/str.h"
#include "config/value.h"

#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static const char *const accel_words[] = {"auto", "kvm", "hvf", "tcg", NULL};

/* The limits of numbers are those of gb_machine_spec_check. What a project file may not
 * set would open the host to a checkout: host folders, kernels, which accelerator
 * isolates. */
static const struct gb_config_key keys[GB_CONFIG_COUNT] = {
	{GB_CONFIG_CPUS, "machine", "cpus", GB_CONFIG_INT, .min = 1, .max = 64,
		.fallback = "2", .env = "GLOVEBOX_CPUS", .project = true,
		.help = "processors of a new machine"},
	{GB_CONFIG_MEMORY, "machine", "memory", GB_CONFIG_SIZE, .min = 128 * MIB,
		.max = 1024 * GIB, .unit = MIB, .fallback = "2G",
		.env = "GLOVEBOX_MEMORY", .project = true,
		.help = "memory of a new machine, taken from the host only as it is "
			"used; "
			"a bare number is MiB"},
	{GB_CONFIG_DISK, "machine", "disk", GB_CONFIG_SIZE, .min = 64 * MIB,
		.max = 16384 * GIB, .unit = GIB, .fallback = "20G",
		.env = "GLOVEBOX_DISK", .project = true,
		.help = "size of a new machine's root disk, sparse; a bare number is "
			"GiB"},
	{GB_CONFIG_ACCEL, "machine", "accel", GB_CONFIG_ENUM, .words = accel_words,
		.fallback = "auto", .env = "GLOVEBOX_ACCEL",
		.help = "how processors are run; auto tries KVM and falls back to TCG"},
	{GB_CONFIG_USER, "machine", "user", GB_CONFIG_STRING, .fallback = "",
		.env = "GLOVEBOX_USER", .project = true,
		.help = "who commands run as inside: name, uid, uid:gid; "
			"empty: the image's user, else root"},
	{GB_CONFIG_WORKDIR, "machine", "workdir", GB_CONFIG_GUEST, .fallback = "",
		.env = "GLOVEBOX_WORKDIR", .project = true,
		.help = "working directory inside; empty: /work"},
	{GB_CONFIG_ENVIRONMENT, "machine", "env", GB_CONFIG_ENV, .fallback = "",
		.env = "GLOVEBOX_ENV", .project = true,
		.help = "variables of every command: K=V, or K to take the host's value"},
	{GB_CONFIG_SHARE_LIST, "machine", "shares", GB_CONFIG_SHARES, .fallback = "",
		.env = "GLOVEBOX_SHARES",
		.help = "more host folders for the guest: HOST:GUEST or HOST:GUEST:ro"},
	{GB_CONFIG_KERNEL, "machine", "kernel", GB_CONFIG_PATH, .fallback = "",
		.env = "GLOVEBOX_KERNEL",
		.help = "guest kernel (vmlinuz or vmlinux); empty: found by itself"},
	{GB_CONFIG_MODULES, "machine", "modules", GB_CONFIG_PATH, .fallback = "",
		.env = "GLOVEBOX_MODULES",
		.help = "its modules folder (.../lib/modules/RELEASE)"},
	{GB_CONFIG_IMAGE_DEFAULT, "image", "default", GB_CONFIG_IMAGE, .fallback = "",
		.env = "GLOVEBOX_IMAGE", .project = true,
		.help = "image of a new machine: a name, a digest, or a source that is "
			"imported once; empty: a small Debian that is made once"},
};

const struct gb_config_key *gb_config_key(enum gb_config_id id)
{
	return &keys[id];
}

const struct gb_config_key *gb_config_key_find(const char *table, const char *key)
{
	for (size_t i = 0; i < GB_CONFIG_COUNT; i++)
		if (gb_streq(keys[i].table, table) && gb_streq(keys[i].key, key))
			return &keys[i];
	return NULL;
}

bool gb_config_type_is_list(enum gb_config_type t)
{
	return t == GB_CONFIG_ENV || t == GB_CONFIG_SHARES;
}

static void expected_words(const struct gb_config_key *k, char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size, "one of");

	for (const char *const *w = k->words; *w && n < size; w++)
		n += (size_t)snprintf(
			text + n, size - n, "%s %s", w == k->words ? "" : ",", *w);
}

void gb_config_expected(const struct gb_config_key *k, char *text, size_t size)
{
	static const char *const plain[] = {
		[GB_CONFIG_STRING] = "a string",
		[GB_CONFIG_PATH] = "a path, as a string",
		[GB_CONFIG_GUEST] = "an absolute path in the guest, such as \"/work\"",
		[GB_CONFIG_IMAGE] = "an image's name, digest or source, as a string",
		[GB_CONFIG_ENV] = "a list of strings \"K=V\" or \"K\"",
		[GB_CONFIG_SHARES] =
			"a list of strings \"HOST:GUEST\" or \"HOST:GUEST:ro\"",
	};
	char low[32];
	char high[32];

	switch (k->type) {
	case GB_CONFIG_INT:
		snprintf(text, size, "a whole number from %llu to %llu",
			(unsigned long long)k->min, (unsigned long long)k->max);
		break;
	case GB_CONFIG_SIZE:
		gb_size_text(k->min, low, sizeof(low));
		gb_size_text(k->max, high, sizeof(high));
		snprintf(text, size, "a size from %s to %s, such as \"%s\"", low, high,
			k->fallback);
		break;
	case GB_CONFIG_ENUM:
		expected_words(k, text, size);
		break;
	default:
		snprintf(text, size, "%s", plain[k->type]);
		break;
	}
}
