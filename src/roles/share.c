/* glovebox-share: answers a guest's FUSE requests for folders of the host.
 *
 *   glovebox-share --port-fd N --control-fd N --share INDEX:rw|ro:FD ...
 *   glovebox-share --self-test --share INDEX:rw|ro:FD ...
 *
 * Started by the supervisor, which hands it the folders as open descriptors. Everything
 * else is given up before the first byte of the guest is read (share/sandbox.h). */
#include "base/log.h"
#include "base/str.h"
#include "share/selftest.h"
#include "share/server.h"

#include <getopt.h>
#include <limits.h>
#include <string.h>

struct options {
	struct gb_share_server_config config;
	bool self_test;
};

static int parse_fd(const char *text, int *ret, struct gb_err *err)
{
	uint64_t n;
	int r = gb_parse_u64(text, INT_MAX, &n, err);

	if (r == 0)
		*ret = (int)n;
	return r;
}

/* INDEX:rw|ro:FD, taken apart in place. */
static int parse_share(char *text, struct gb_share_server_config *c, struct gb_err *err)
{
	char *mode = strchr(text, ':');
	char *fd = mode ? strchr(mode + 1, ':') : NULL;
	uint64_t index;
	int r;

	if (!fd)
		return gb_fail(err, GB_E_INVALID, "a share is INDEX:rw|ro:FD");
	*mode++ = 0;
	*fd++ = 0;
	r = gb_parse_u64(text, GB_SHARE_MAX - 1, &index, err);
	if (r < 0)
		return r;
	if (!gb_streq(mode, "rw") && !gb_streq(mode, "ro"))
		return gb_fail(err, GB_E_INVALID, "'%s' is neither rw nor ro", mode);
	if (c->shares[index].used)
		return gb_fail(err, GB_E_INVALID, "share %u is there twice", (unsigned)index);
	c->shares[index].used = true;
	c->shares[index].read_only = gb_streq(mode, "ro");
	return parse_fd(fd, &c->shares[index].root_fd, err);
}

static int parse_options(int argc, char **argv, struct options *o, struct gb_err *err)
{
	static const struct option known[] = {
		{ "port-fd", required_argument, NULL, 'p' },
		{ "control-fd", required_argument, NULL, 'c' },
		{ "share", required_argument, NULL, 's' },
		{ "self-test", no_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	int c, r = 0;

	o->config.port = o->config.control = -1;
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (c == 'p')
			r = parse_fd(optarg, &o->config.port, err);
		else if (c == 'c')
			r = parse_fd(optarg, &o->config.control, err);
		else if (c == 's')
			r = parse_share(optarg, &o->config, err);
		else if (c == 't')
			o->self_test = true;
		else
			r = gb_fail(err, GB_E_INVALID, "cannot use '%s'", argv[optind - 1]);
	}
	if (r == 0 && optind < argc)
		r = gb_fail(err, GB_E_INVALID, "cannot use '%s'", argv[optind]);
	if (r == 0 && !o->self_test && (o->config.port < 0 || o->config.control < 0))
		r = gb_fail(err, GB_E_INVALID, "--port-fd and --control-fd are needed");
	return r;
}

static int enter_sandbox(struct gb_share_server_config *c, unsigned int *ret_stages,
	const int *keep, size_t keep_count, struct gb_err *err)
{
	struct gb_jail_dir dirs[GB_SHARE_MAX];
	struct gb_sandbox box;
	size_t count = 0;
	int r;

	for (size_t i = 0; i < GB_SHARE_MAX; i++)
		if (c->shares[i].used)
			dirs[count++] = (struct gb_jail_dir){ c->shares[i].root_fd,
				c->shares[i].read_only };
	r = gb_sandbox_enter(dirs, count, keep, keep_count, &box, err);
	if (r < 0)
		return r;
	count = 0;
	for (size_t i = 0; i < GB_SHARE_MAX; i++)
		if (c->shares[i].used)
			c->shares[i].root_fd = dirs[count++].fd;
	c->max_fds = box.max_fds;
	*ret_stages = box.stages;
	return 0;
}

static int run(struct options *o, struct gb_err *err)
{
	int keep[] = { o->config.port, o->config.control };
	unsigned int stages;
	int r;

	if (o->self_test) {
		int status = gb_selftest_open_status();

		r = enter_sandbox(&o->config, &stages, &status, 1, err);
		return r < 0 ? r : gb_selftest_run(&o->config, status, stages, err);
	}
	r = enter_sandbox(&o->config, &stages, keep, GB_ARRAY_SIZE(keep), err);
	return r < 0 ? r : gb_share_serve(&o->config, err);
}

int main(int argc, char **argv)
{
	static int log_fd = 2;
	struct options o = { 0 };
	struct gb_err err = { 0 };
	int r;

	gb_log_set_sink(gb_log_to_fd, &log_fd, GB_LOG_INFO);
	r = parse_options(argc, argv, &o, &err);
	if (r == 0)
		r = run(&o, &err);
	if (r < 0)
		gb_log(GB_LOG_ERROR, "share server: %s", err.msg);
	return r < 0;
}
