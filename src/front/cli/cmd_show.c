/* inspect and logs: looking at one machine closely. */
#include "front/cli/look.h"

#include "base/fd.h"
#include "machine/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Any message of the wire by its own table of fields. */
static json_t *message_json(const struct gb_msg_desc *d, const void *msg)
{
	json_t *o = json_object();

	for (size_t i = 0; i < d->count; i++) {
		const void *at = (const char *)msg + d->fields[i].offset;
		json_t *v = NULL;

		switch (d->fields[i].kind) {
		case GB_KIND_u32:
			v = json_integer(*(const uint32_t *)at);
			break;
		case GB_KIND_u64:
			v = json_integer((json_int_t) * (const uint64_t *)at);
			break;
		case GB_KIND_i64:
			v = json_integer(*(const int64_t *)at);
			break;
		case GB_KIND_str:
			v = gb_json_text(*(char *const *)at);
			break;
		case GB_KIND_list: {
			const struct gb_list *l = at;

			v = json_array();
			for (size_t j = 0; j < l->n; j++)
				json_array_append_new(v, gb_json_text(l->v[j]));
			break;
		}
		case GB_KIND_bytes:
			break;
		}
		if (v)
			json_object_set_new(o, d->fields[i].name, v);
	}
	return o;
}

/* How a running machine does, asked over its socket; NULL when it does not say. */
static json_t *status_json(const struct gb_cli *cli, const char *name)
{
	gb_auto(gb_client) *c = NULL;
	struct gb_msg_status m;
	json_t *o = NULL;

	if (gb_client_connect(&cli->dirs, name, &c, NULL) == 0 &&
		gb_client_status(c, &m, NULL) == 0) {
		o = message_json(&gb_msg_status_desc, &m);
		gb_msg_status_done(&m);
	}
	return o;
}

static void print_value(const json_t *v)
{
	gb_auto_free char *text = NULL;

	if (json_is_string(v))
		text = gb_printable(json_string_value(v), false);
	else
		text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
	puts(text ? text : "?");
}

/* "key: value" lines; a list has a line an entry, an object is indented. */
static void print_fields(json_t *o, int indent)
{
	const char *key;
	json_t *v;

	json_object_foreach(o, key, v)
	{
		const json_t *item;
		size_t i;

		if (json_is_object(v) && indent == 0) {
			printf("%s:\n", key);
			print_fields(v, 2);
			continue;
		}
		if (json_is_array(v) && json_array_size(v)) {
			json_array_foreach(v, i, item)
			{
				printf("%*s%s: ", indent, "", key);
				print_value(item);
			}
			continue;
		}
		if (json_is_array(v) || (json_is_string(v) && !json_string_length(v)))
			continue;
		printf("%*s%s: ", indent, "", key);
		print_value(v);
	}
}

static int inspect_one(
	struct gb_cli *cli, const char *name, json_t **ret, struct gb_err *err)
{
	struct gb_look l;
	json_t *status;
	int r = gb_look_at(cli, name, &l, err);

	if (r < 0)
		return r;
	*ret = gb_look_json(name, &l);
	status = l.info.state == GB_MACHINE_RUNNING ? status_json(cli, name) : NULL;
	if (status)
		json_object_set_new(*ret, "status", status);
	gb_look_done(&l);
	return 0;
}

int gb_cmd_inspect(struct gb_cli *cli, struct gb_err *err)
{
	bool json = gb_cli_given(&cli->args, OPT_JSON);
	json_t *list = json_array();
	json_t *o;
	size_t i;
	int code = 0;
	int r = 0;

	for (i = 0; i < cli->args.operand_count; i++) {
		struct gb_err why;

		if (inspect_one(cli, cli->args.operands[i], &o, &why) == 0) {
			json_array_append_new(list, o);
		} else {
			gb_say("%s", why.msg);
			code = 1;
		}
	}
	if (json)
		r = gb_print_json(json_incref(list), err);
	else
		json_array_foreach(list, i, o)
		{
			if (i)
				putchar('\n');
			print_fields(o, 0);
		}
	json_decref(list);
	if (r == 0)
		r = gb_flush(err);
	return r < 0 ? r : code;
}

/* What a guest's kernel printed must not drive our terminal; into a pipe it goes as it
 * is. */
static int write_log(const char *data, size_t len, struct gb_err *err)
{
	gb_auto_free char *text = NULL;
	gb_auto_free char *clean = NULL;

	if (!isatty(STDOUT_FILENO))
		return gb_fd_write_full(STDOUT_FILENO, data, len, err);
	text = malloc(len + 1);
	if (!text)
		return gb_nomem(err);
	/* a NUL would end it; a carriage return only goes with a newline anyway */
	for (size_t i = 0; i < len; i++)
		text[i] = data[i] && data[i] != '\r' ? data[i] : ' ';
	text[len] = 0;
	clean = gb_printable(text, true);
	if (!clean)
		return gb_nomem(err);
	return gb_fd_write_full(STDOUT_FILENO, clean, len, err);
}

static int print_rest(int fd, struct gb_err *err)
{
	char chunk[16384];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gb_fail_sys(err, errno, "cannot read the log");
		if (n == 0)
			return 0;
		r = write_log(chunk, (size_t)n, err);
		if (r < 0)
			return r;
	}
}

/* Until interrupted, or until the reader of our output or the log itself is gone. */
static int follow(int fd, const char *path, struct gb_err *err)
{
	gb_auto_fd watch = inotify_init1(IN_CLOEXEC);
	union {
		struct inotify_event event;
		char room[sizeof(struct inotify_event) + NAME_MAX + 1];
	} got;
	int r = 0;

	if (watch < 0 || inotify_add_watch(
				 watch, path, IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF) < 0)
		return gb_fail_sys(err, errno, "cannot watch '%s'", path);
	while (r == 0) {
		struct pollfd p[2] = {{watch, POLLIN, 0}, {STDOUT_FILENO, 0, 0}};

		r = print_rest(fd, err);
		if (r < 0)
			break;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot poll");
		if (p[1].revents & (POLLERR | POLLHUP))
			return gb_fail(
				err, GB_E_CLOSED, "the reader of the output is gone");
		if (p[0].revents && read(watch, &got, sizeof(got)) < 0 && errno != EINTR)
			return gb_fail_sys(err, errno, "cannot watch '%s'", path);
		if (p[0].revents && access(path, F_OK) < 0)
			return print_rest(fd, err);
	}
	return r;
}

int gb_cmd_logs(struct gb_cli *cli, struct gb_err *err)
{
	const char *name = cli->args.operands[0];
	bool console = gb_cli_given(&cli->args, OPT_CONSOLE);
	gb_auto_free char *path = gb_machine_path(
		&cli->dirs, name, console ? "console.log" : "supervisor.log");
	struct gb_machine_info info;
	gb_auto_fd fd = -1;
	int r = gb_machine_inspect(&cli->dirs, name, &info, err);

	if (r < 0)
		return r;
	gb_machine_info_done(&info);
	if (!path)
		return gb_nomem(err);
	if (console && gb_cli_given(&cli->args, OPT_SUPERVISOR)) {
		gb_say("--console and --supervisor exclude each other");
		return GB_EXIT_USAGE;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		gb_say("machine '%s' has no such log yet", name);
		return 0;
	}
	if (fd < 0)
		return gb_fail_sys(err, errno, "cannot open '%s'", path);
	r = print_rest(fd, err);
	return r < 0 || !gb_cli_given(&cli->args, OPT_FOLLOW) ? r : follow(fd, path, err);
}
