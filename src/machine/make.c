#include "machine/make.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How old an abandoned ephemeral machine must be: its maker may be in a pid namespace that we
 * do not see. */
#define ABANDONED_S 10

static int random_hex(size_t bytes, char *out, struct gb_err *err)
{
	uint8_t raw[32];

	if (getrandom(raw, bytes, 0) != (ssize_t)bytes)
		return gb_fail_sys(err, errno, "cannot get random bytes");
	gb_hex(raw, bytes, out);
	return 0;
}

static int fill_from_image(struct gb_machine_spec *s, const struct gb_image *image,
	const char *ref, struct gb_err *err)
{
	for (size_t i = 0; i < image->env.n; i++)
		gb_strv_set_env(&s->env, image->env.v[i]);
	if (!gb_spec_set(&s->image, image->digest) || !gb_spec_set(&s->image_ref, ref) ||
		!gb_spec_set(&s->user, image->user ? image->user : ""))
		return gb_nomem(err);
	return gb_strv_check(&s->env, "environment", err);
}

int gb_machine_spec_new(const char *name, const struct gb_image *image, const char *ref,
	struct gb_machine_spec *ret, struct gb_err *err)
{
	struct gb_machine_spec s;
	char id[33];
	int r = random_hex(16, id, err);

	if (r < 0)
		return r;
	gb_machine_spec_init(&s);
	s.created_s = time(NULL);
	r = gb_spec_set(&s.name, name) && gb_spec_set(&s.id, id) ? 0 : gb_nomem(err);
	if (r == 0 && image)
		r = fill_from_image(&s, image, ref, err);
	if (r < 0) {
		gb_machine_spec_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

int gb_machine_spec_disk(struct gb_machine_spec *s, const struct gb_image *image, uint64_t wanted,
	bool exact, struct gb_err *err)
{
	s->disk_bytes = wanted;
	if (!image || wanted >= image->size)
		return 0;
	if (exact)
		return gb_fail(err, GB_E_INVALID,
			"the image needs a disk of %llu MiB at least (--disk)",
			(unsigned long long)((image->size + (1u << 20) - 1) >> 20));
	s->disk_bytes = image->size;
	return 0;
}

/* Whether outer is inner or a folder above it; both absolute and resolved. */
static bool contains(const char *outer, const char *inner)
{
	size_t n = strlen(outer);

	if (n && outer[n - 1] == '/')
		n--;
	return strncmp(outer, inner, n) == 0 && (!inner[n] || inner[n] == '/');
}

int gb_machine_check_folder(const struct gb_dirs *d, const char *folder, struct gb_err *err)
{
	const char *const own[] = { d->config, d->data, d->cache, d->runtime };
	char real_folder[PATH_MAX];

	if (!realpath(folder, real_folder))
		return gb_fail_sys(err, errno, "cannot share '%s'", folder);
	for (size_t i = 0; i < GB_ARRAY_SIZE(own); i++) {
		char real_own[PATH_MAX];
		const char *path = realpath(own[i], real_own) ? real_own : own[i];

		if (contains(real_folder, path) || contains(path, real_folder))
			return gb_fail(err, GB_E_DENIED,
				"cannot share '%s': glovebox keeps its own files in '%s', which a "
				"guest must not reach; work in a folder beside them",
				folder, path);
	}
	return 0;
}

static int check_share(const struct gb_dirs *d, const char *host, struct gb_err *err)
{
	struct stat st;

	if (stat(host, &st) < 0)
		return gb_fail_sys(err, errno, "cannot share '%s'", host);
	if (!S_ISDIR(st.st_mode))
		return gb_fail(err, GB_E_INVALID, "cannot share '%s': not a folder", host);
	return gb_machine_check_folder(d, host, err);
}

int gb_machine_check_shares(
	const struct gb_dirs *d, const struct gb_machine_spec *s, struct gb_err *err)
{
	int r = *s->directory ? check_share(d, s->directory, err) : 0;

	for (size_t i = 0; r == 0 && i < s->share_count; i++)
		r = check_share(d, s->shares[i].host, err);
	return r;
}

int gb_machine_ephemeral_name(char **ret, struct gb_err *err)
{
	char hex[9];
	int r = random_hex(4, hex, err);

	if (r < 0)
		return r;
	if (asprintf(ret, "rm-%d-%s", (int)getpid(), hex) < 0)
		return gb_nomem(err);
	return 0;
}

static bool is_abandoned(const struct gb_dirs *d, const char *name)
{
	struct gb_machine_info info;
	struct gb_machine_spec spec;
	bool old;
	int pid;

	if (sscanf(name, "rm-%d-", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 ||
		errno != ESRCH || gb_machine_load(d, name, &spec, NULL) < 0)
		return false;
	old = spec.ephemeral && spec.created_s + ABANDONED_S < time(NULL);
	gb_machine_spec_done(&spec);
	if (!old || gb_machine_inspect(d, name, &info, NULL) < 0)
		return false;
	gb_machine_info_done(&info);
	return info.state != GB_MACHINE_RUNNING;
}

void gb_machine_sweep_ephemeral(const struct gb_dirs *d)
{
	struct gb_strv names = { 0 };

	if (gb_machine_names(d, &names, NULL) == 0)
		for (size_t i = 0; i < names.n; i++)
			if (is_abandoned(d, names.v[i]))
				gb_machine_remove(d, names.v[i], NULL);
	gb_strv_done(&names);
}
