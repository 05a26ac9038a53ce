/* A share under a guest that sends anything. Input: a run of messages,
 *   u8 opcode | u8 node | u16 LE length | length bytes of arguments
 * whose headers are made here; node is an index of a number (low 6 bits: slot, high 2:
 * generation), opcode 255 sends the bytes as they are, header and all, and 254 lets
 * a second pass. The folder holds a few files, and a neighbour that no message may reach. */
#include "base/path.h"
#include "share/share.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGES_MAX 64
#define RAW          255
#define REST         254

static char top[64];

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void clean_up(void)
{
	gb_rm_tree(AT_FDCWD, top, NULL);
}

static int at_top(void)
{
	int fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);

	require(fd >= 0);
	return fd;
}

static void put_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	require(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void start(void)
{
	/* whatever is asked for, no file gets larger */
	struct rlimit small = {1 << 20, 1 << 20};
	int dir;

	snprintf(top, sizeof(top), "%s/gbfuzz.XXXXXX",
		access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	require(mkdtemp(top) != NULL);
	atexit(clean_up);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	dir = at_top();
	put_file(dir, "outside", "untouched");
	close(dir);
	require(chdir("/proc/self/fd") == 0);
}

static void fill(int dir)
{
	require(gb_rm_tree(dir, "share", NULL) == 0);
	require(mkdirat(dir, "share", 0755) == 0 && mkdirat(dir, "share/d", 0755) == 0);
	put_file(dir, "share/f", "text");
	put_file(dir, "share/d/g", "more text");
	require(symlinkat("../outside", dir, "share/l") == 0);
	require(mkfifoat(dir, "share/p", 0600) == 0);
}

static size_t make_message(
	const uint8_t *data, size_t len, uint8_t opcode, uint8_t node, uint8_t *out)
{
	struct fuse_in_header h = {
		.len = (uint32_t)(sizeof(h) + len),
		.opcode = opcode,
		.unique = 1,
		.nodeid = (uint64_t)(node >> 6) << 32 | (node & 63),
	};

	memcpy(out, &h, sizeof(h));
	memcpy(out + sizeof(h), data, len);
	return h.len;
}

static void check_reply(const uint8_t *reply, size_t len)
{
	struct fuse_out_header h;

	if (!len)
		return;
	memcpy(&h, reply, sizeof(h));
	require(h.len == len && len >= sizeof(h) &&
		len <= sizeof(h) + GB_SHARE_REPLY_MAX);
	require(h.error <= 0 && h.error > -4096 && (!h.error || len == sizeof(h)));
}

static void send_one(
	struct gb_share *s, const uint8_t *data, size_t len, uint8_t opcode, uint8_t node)
{
	static _Alignas(8)
		uint8_t reply[sizeof(struct fuse_out_header) + GB_SHARE_REPLY_MAX];
	size_t whole = opcode == RAW ? len : len + sizeof(struct fuse_in_header);
	uint8_t *exact = malloc(GB_MAX(whole, (size_t)1));
	size_t reply_len;

	require(exact != NULL);
	if (opcode == REST)
		gb_share_rest(s);
	if (opcode == RAW)
		memcpy(exact, data, len);
	else
		make_message(data, len, opcode, node, exact);
	if (gb_share_handle(s, exact, whole, reply, &reply_len, NULL) == 0)
		check_reply(reply, reply_len);
	free(exact);
}

static void send_all(struct gb_share *s, const uint8_t *data, size_t size)
{
	struct fuse_init_in init = {.major = 7, .minor = 38, .flags = UINT32_MAX};
	int n = 0;

	send_one(s, (const uint8_t *)&init, sizeof(init), FUSE_INIT, 0);
	while (size >= 4 && n++ < MESSAGES_MAX) {
		size_t len = GB_MIN(size - 4, (size_t)(data[2] | data[3] << 8));

		send_one(s, data + 4, len, data[0], data[1]);
		data += 4 + len;
		size -= 4 + len;
	}
}

static void check_outside(int dir)
{
	char text[16] = "";
	struct stat st;
	int fd = openat(dir, "outside", O_RDONLY | O_CLOEXEC);

	require(fd >= 0 && read(fd, text, sizeof(text)) == 9 &&
		!strcmp(text, "untouched"));
	require(fstat(fd, &st) == 0 && st.st_nlink == 1 &&
		st.st_mode == (S_IFREG | 0644));
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gb_share_budget budget;
	struct gb_share_config c = {.uid = 1, .gid = 1, .budget = &budget};
	struct gb_share *s = NULL;
	int dir;

	if (!top[0])
		start();
	dir = at_top();
	fill(dir);
	gb_share_budget_init(&budget, 128);
	budget.dirs_max = 2;
	c.read_only = size && data[size - 1] & 1;
	require(gb_share_new(openat(dir, "share", O_PATH | O_DIRECTORY | O_CLOEXEC), &c,
			&s, NULL) == 0);
	send_all(s, data, size);
	gb_share_free(s);
	require(!budget.nodes && !budget.dirs && !budget.handles);
	check_outside(dir);
	close(dir);
	return 0;
}
