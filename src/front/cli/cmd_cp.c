/* cp: files and trees between the host and a machine. */
#include "front/cli/copy_arg.h"

#include "base/clock.h"
#include "front/cli/cli.h"
#include "machine/client.h"

#include <string.h>
#include <unistd.h>

#define PROGRESS_EVERY_NS UINT64_C(100000000)

bool gb_copy_arg_parse(const char *text, struct gb_copy_arg *ret)
{
	size_t n = strcspn(text, ":/");

	memset(ret, 0, sizeof(*ret));
	ret->path = text;
	if (text[n] != ':' || n >= sizeof(ret->machine))
		return *text != 0;
	memcpy(ret->machine, text, n);
	if (!gb_name_valid(ret->machine)) {
		ret->machine[0] = 0;
		return *text != 0;
	}
	ret->path = text + n + 1;
	return *ret->path != 0;
}

/* Shown on a terminal only, ten times a second at most. */
struct shower {
	uint64_t next_ns;
};

static void show_bytes(void *ctx, uint64_t bytes, const char *path)
{
	struct shower *s = ctx;
	gb_auto_free char *line = NULL;
	char amount[32];

	if (!isatty(STDERR_FILENO) || gb_now_ns() < s->next_ns)
		return;
	s->next_ns = gb_now_ns() + PROGRESS_EVERY_NS;
	gb_amount_text(bytes, amount, sizeof(amount));
	if (asprintf(&line, "%10s  %s", amount, path ? path : "") < 0) {
		line = NULL;
		return;
	}
	gb_progress_show(NULL, line);
}

static int copy(struct gb_cli *cli, const struct gb_copy_arg *from,
	const struct gb_copy_arg *to, struct gb_err *err)
{
	const char *owner = gb_cli_value(&cli->args, OPT_OWNER);
	const char *machine = *from->machine ? from->machine : to->machine;
	struct shower shower = {0};
	gb_auto(gb_client) *c = NULL;
	int r = gb_client_connect(&cli->dirs, machine, &c, err);

	if (r < 0)
		return r;
	if (*from->machine)
		r = gb_client_copy_out(c, from->path, to->path, show_bytes, &shower, err);
	else
		r = gb_client_copy_in(c, from->path, to->path, owner ? owner : "",
			show_bytes, &shower, err);
	gb_progress_end();
	return r;
}

int gb_cmd_cp(struct gb_cli *cli, struct gb_err *err)
{
	struct gb_copy_arg from;
	struct gb_copy_arg to;
	int r;

	if (!gb_copy_arg_parse(cli->args.operands[0], &from) ||
		!gb_copy_arg_parse(cli->args.operands[1], &to)) {
		gb_say("cp needs a path on both sides, such as build:/work/out.tar");
		return GB_EXIT_USAGE;
	}
	if (!*from.machine == !*to.machine) {
		gb_say(*from.machine
				? "cp copies between the host and a machine, not between "
				  "two machines"
				: "one side of cp must be MACHINE:PATH");
		return GB_EXIT_USAGE;
	}
	if (*from.machine && gb_cli_given(&cli->args, OPT_OWNER)) {
		gb_say("--user is for copies into a machine");
		return GB_EXIT_USAGE;
	}
	r = copy(cli, &from, &to, err);
	return r < 0 ? gb_wrap(err, r, "cannot copy '%s'", cli->args.operands[0]) : 0;
}
