#include "vmm/accel.h"
#include "vmm/accel_probe.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CACHE_FORMAT  "glovebox-accel 1"
#define CACHE_MAX     1024 /* CACHE/accel */
#define BOOT_ID	      "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_MAX   128
#define IDENTITY_SIZE 256

static const char *const names[] = {
	[GB_ACCEL_AUTO] = "auto",
	[GB_ACCEL_KVM] = "kvm",
	[GB_ACCEL_HVF] = "hvf",
	[GB_ACCEL_TCG] = "tcg",
};

int gb_accel_parse(const char *word, enum gb_accel *ret, struct gb_err *err)
{
	for (size_t i = 0; i < GB_ARRAY_SIZE(names); i++) {
		if (gb_streq(word, names[i])) {
			*ret = (enum gb_accel)i;
			return 0;
		}
	}
	return gb_fail(err, GB_E_INVALID,
		"unknown accelerator '%s': it is one of auto, kvm, hvf, tcg",
		word ? word : "");
}

const char *gb_accel_name(enum gb_accel a)
{
	return (size_t)a < GB_ARRAY_SIZE(names) ? names[a] : "unknown";
}

/* What a remembered verdict is about: this boot, this device node, this user. False when
 * there is nothing to remember it by. */
static bool identity(const char *device, char text[IDENTITY_SIZE])
{
	gb_auto_done(gb_buf) boot = {0};
	struct stat st;

	/* that there is no device is worth remembering too: it is told once */
	if (stat(device, &st) < 0)
		memset(&st, 0, sizeof(st));
	if (gb_file_read(AT_FDCWD, BOOT_ID, BOOT_ID_MAX, &boot, NULL) < 0)
		return false;
	boot.data[strcspn((char *)boot.data, "\n")] = 0;
	snprintf(text, IDENTITY_SIZE, "%.64s %u:%u %o %u:%u %llu %lld.%ld %u",
		(char *)boot.data, major(st.st_rdev), minor(st.st_rdev),
		(unsigned)st.st_mode, (unsigned)st.st_uid, (unsigned)st.st_gid,
		(unsigned long long)st.st_ino, (long long)st.st_ctim.tv_sec,
		st.st_ctim.tv_nsec, (unsigned)geteuid());
	return true;
}

/* Three lines: format, identity, "yes" or "no" and the reason. Whatever else the file
 * says is as if it were not there. */
static bool cache_read(const char *path, const char *id, struct gb_kvm_verdict *ret)
{
	gb_auto_done(gb_buf) text = {0};
	char want[IDENTITY_SIZE + 64];
	size_t len = (size_t)snprintf(want, sizeof(want), "%s\n%s\n", CACHE_FORMAT, id);
	const char *rest;
	const char *end;

	if (gb_file_read(AT_FDCWD, path, CACHE_MAX, &text, NULL) < 0 ||
		text.len != strlen((char *)text.data) ||
		!gb_starts_with((char *)text.data, want))
		return false;
	rest = (char *)text.data + len;
	end = strchr(rest, '\n');
	ret->usable = gb_starts_with(rest, "yes ");
	if (!end || end[1] || (!ret->usable && !gb_starts_with(rest, "no ")))
		return false;
	rest = strchr(rest, ' ') + 1;
	snprintf(ret->why, sizeof(ret->why), "%.*s", (int)(end - rest), rest);
	return true;
}

/* A host where the cache cannot be written is probed again: milliseconds. */
static void cache_write(const char *cache_dir, const char *path, const char *id,
	const struct gb_kvm_verdict *v)
{
	char text[IDENTITY_SIZE + sizeof(v->why) + 64];
	int n = snprintf(text, sizeof(text), "%s\n%s\n%s %s\n", CACHE_FORMAT, id,
		v->usable ? "yes" : "no", v->why);

	if (gb_mkdir_p(cache_dir, 0700, NULL) == 0)
		(void)gb_file_write_atomic(AT_FDCWD, path, text, (size_t)n, 0600, NULL);
}

static char *cache_path(const char *cache_dir)
{
	return gb_path_join(cache_dir, "accel");
}

void gb_accel_forget(const char *cache_dir)
{
	gb_auto_free char *path = cache_path(cache_dir);

	if (path)
		unlink(path);
}

/* insist: what was remembered counts only if it is good news. */
static int verdict(const struct gb_kvm_ops *ops, const char *device, uint64_t limit_ms,
	const char *cache_dir, bool insist, bool *cached, struct gb_kvm_verdict *ret,
	struct gb_err *err)
{
	char id[IDENTITY_SIZE];
	gb_auto_free char *path = NULL;
	bool known;

	known = cache_dir && identity(device, id);
	if (known) {
		path = cache_path(cache_dir);
		if (!path)
			return gb_nomem(err);
		*cached = cache_read(path, id, ret) && (ret->usable || !insist);
		if (*cached)
			return 0;
	}
	/* the common answer where there is none: not worth a child */
	if (access(device, F_OK) < 0) {
		ret->certain = true;
		snprintf(ret->why, sizeof(ret->why), "%s does not exist", device);
	} else {
		gb_kvm_probe(ops, device, limit_ms, ret);
	}
	if (known && ret->certain)
		cache_write(cache_dir, path, id, ret);
	return 0;
}

int gb_accel_resolve_with(const struct gb_kvm_ops *ops, const char *device,
	uint64_t limit_ms, enum gb_accel want, const char *cache_dir,
	struct gb_accel_result *ret, struct gb_err *err)
{
	struct gb_kvm_verdict v = {0};
	bool cached = false;
	int r;

	if (want == GB_ACCEL_HVF)
		return gb_fail(
			err, GB_E_UNSUPPORTED, "accelerator hvf needs a macOS host");
	memset(ret, 0, sizeof(*ret));
	ret->accel = GB_ACCEL_TCG;
	if (want == GB_ACCEL_TCG) {
		snprintf(ret->why, sizeof(ret->why), "tcg was asked for");
		return 0;
	}
	r = verdict(
		ops, device, limit_ms, cache_dir, want == GB_ACCEL_KVM, &cached, &v, err);
	if (r < 0)
		return r;
	if (!v.usable && want == GB_ACCEL_KVM)
		return gb_fail(err, GB_E_UNSUPPORTED,
			"accelerator kvm does not work here: %s", v.why);
	ret->cached = cached;
	if (v.usable)
		ret->accel = GB_ACCEL_KVM;
	snprintf(ret->why, sizeof(ret->why), "%s%s", v.why,
		v.usable ? "" : "; using tcg: slower, and not isolated by hardware");
	return 0;
}

int gb_accel_resolve(enum gb_accel want, const char *cache_dir,
	struct gb_accel_result *ret, struct gb_err *err)
{
	return gb_accel_resolve_with(&gb_kvm_ops_real, GB_KVM_DEVICE, GB_KVM_LIMIT_MS,
		want, cache_dir, ret, err);
}
