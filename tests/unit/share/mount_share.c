/* Mounts a folder through glovebox-share and runs a command there: the guest's agent,
 * played by the host's kernel, in a mount namespace of its own.
 *
 *   mount_share SERVER rw|ro UID:GID FOLDER MOUNTPOINT SECONDS COMMAND...
 *
 * Exits with the command's code; 77 (a skip, for Meson) where /dev/fuse cannot be used;
 * 99 when the server broke off; 124 after so many seconds, when the connection is cut, so
 * that nothing can hang on it. In the environment, GB_MOUNT_USER is the number of the
 * user who shall run the server, GB_MOUNT_FILES its limit of open files, and GB_MOUNT_RSS
 * prints the server's memory at the end. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "proto/frame.h"
#include "proto/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SKIP 77

struct relay {
	int fuse;
	int port;
	bool broken; /* the server ended first */
};

static void *to_server(void *arg)
{
	struct relay *r = arg;
	uint8_t *buf = malloc(GB_FRAME_HEADER + GB_FRAME_MAX);
	struct gb_err err;

	while (buf) {
		ssize_t n = read(r->fuse, buf + GB_FRAME_HEADER, GB_FRAME_MAX);
		struct gb_frame f = {.type = GB_FRAME_FUSE};

		if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		if (n <= 0)
			break; /* unmounted or cut */
		f.length = (uint32_t)n;
		gb_frame_put_header(buf, &f);
		if (gb_fd_write_full(r->port, buf, GB_FRAME_HEADER + (size_t)n, &err) < 0)
			break;
	}
	free(buf);
	return NULL;
}

static void *to_kernel(void *arg)
{
	struct relay *r = arg;
	struct gb_frame_reader in;
	struct gb_frame f;
	struct gb_err err;
	int more = 0;

	gb_frame_reader_init(&in);
	while (more >= 0) {
		size_t room;
		uint8_t *to = gb_frame_reader_room(&in, &room);
		ssize_t n = to ? read(r->port, to, room) : -1;

		if (n <= 0)
			break;
		gb_frame_reader_filled(&in, (size_t)n);
		while ((more = gb_frame_reader_next(&in, &f, &err)) > 0)
			if (write(r->fuse, f.payload, f.length) < 0 && errno != ENOENT)
				fprintf(stderr,
					"mount_share: the kernel refused a reply: %s\n",
					strerror(errno));
	}
	r->broken = true;
	gb_frame_reader_done(&in);
	return NULL;
}

static void limit_files(void)
{
	const char *text = getenv("GB_MOUNT_FILES");
	struct rlimit files;
	uint64_t n;

	if (!text || !*text || gb_parse_u64(text, UINT32_MAX, &n, NULL) < 0)
		return;
	files.rlim_cur = files.rlim_max = n;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* Let setpriv start the server as another user, where that is wanted. */
static void add_user(const char **argv)
{
	static char uid[32], gid[32];
	const char *user = getenv("GB_MOUNT_USER");

	if (!user || !*user)
		return;
	memmove(argv + 4, argv, 7 * sizeof(*argv));
	snprintf(uid, sizeof(uid), "--reuid=%s", user);
	snprintf(gid, sizeof(gid), "--regid=%s", user);
	argv[0] = "setpriv";
	argv[1] = uid;
	argv[2] = gid;
	argv[3] = "--clear-groups";
}

static pid_t start_server(const char *server, const char *mode, const char *owner,
	const char *folder, int *ret_port, int *ret_control)
{
	char share[32];
	const char *argv[] = {server, "--port-fd", "3", "--control-fd", "4", "--share",
		share, NULL, NULL, NULL, NULL, NULL};
	struct gb_msg_owner m = {0};
	struct gb_err err = {0};
	int port[2], control[2];
	int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	gb_auto_done(gb_buf) b;
	uint8_t ready[GB_FRAME_HEADER];
	size_t got;
	pid_t pid;

	gb_buf_init(&b, 0);
	limit_files();
	add_user(argv);
	snprintf(share, sizeof(share), "0:%s:5", mode);
	if (sscanf(owner, "%u:%u", &m.uid, &m.gid) != 2 || dir < 0)
		return -1;
	if (gb_socketpair(port, &err) < 0 || gb_socketpair(control, &err) < 0)
		return -1;
	struct gb_fd_map fds[] = {{2, 2}, {port[1], 3}, {control[1], 4}, {dir, 5}};
	struct gb_spawn s = {.argv = (char *const *)argv,
		.fds = fds,
		.fd_count = 4,
		.die_with_parent = true};

	if (gb_spawn(&s, &pid, &err) < 0) {
		fprintf(stderr, "mount_share: %s\n", err.msg);
		return -1;
	}
	close(port[1]);
	close(control[1]);
	close(dir);
	if (gb_fd_read_full(control[0], ready, sizeof(ready), &got, &err) < 0 ||
		got != sizeof(ready) || ready[4] != GB_FRAME_READY)
		return -1;
	gb_msg_add_frame(&b, GB_FRAME_OWNER, 0, &gb_msg_owner_desc, &m);
	if (gb_fd_write_full(control[0], b.data, b.len, &err) < 0)
		return -1;
	*ret_port = port[0];
	*ret_control = control[0];
	return pid;
}

static int mount_fuse(const char *at)
{
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0 || unshare(CLONE_NEWNS) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		fprintf(stderr, "mount_share: skipped: cannot mount FUSE here: %s\n",
			strerror(errno));
		exit(SKIP);
	}
	snprintf(options, sizeof(options),
		"fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_"
		"other",
		fd);
	if (mount("glovebox", at, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		fprintf(stderr, "mount_share: skipped: cannot mount FUSE here: %s\n",
			strerror(errno));
		exit(SKIP);
	}
	return fd;
}

static void print_rss(pid_t server)
{
	char path[64], line[256];
	FILE *f;

	if (!getenv("GB_MOUNT_RSS"))
		return;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)server);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmRSS", 5) || !strncmp(line, "VmHWM", 5))
			fprintf(stderr, "server %s", line);
	if (f)
		fclose(f);
}

static pid_t run_command(char **argv, const char *at)
{
	pid_t pid = fork();

	if (pid == 0) {
		setpgid(0, 0);
		if (chdir(at) == 0)
			execvp(argv[0], argv);
		fprintf(stderr, "mount_share: cannot run '%s': %s\n", argv[0],
			strerror(errno));
		_exit(127);
	}
	return pid;
}

/* The command's exit code; 124 when it took too long. */
static int wait_command(pid_t pid, uint64_t deadline, const char *at)
{
	struct gb_err err;
	int status;

	if (gb_wait_child(pid, deadline, &status, &err) == 0)
		return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	fprintf(stderr, "mount_share: cutting the connection\n");
	umount2(at, MNT_FORCE | MNT_DETACH);
	kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	return 124;
}

int main(int argc, char **argv)
{
	struct relay relay = {-1, -1, false};
	pthread_t a, b;
	int control, code, status;
	uint64_t seconds;
	pid_t server, command;

	if (argc < 8 || gb_parse_u64(argv[6], 3600, &seconds, NULL) < 0)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	relay.fuse = mount_fuse(argv[5]);
	server = start_server(argv[1], argv[2], argv[3], argv[4], &relay.port, &control);
	if (server < 0)
		return 99;
	if (pthread_create(&a, NULL, to_server, &relay) ||
		pthread_create(&b, NULL, to_kernel, &relay))
		return 99;
	command = run_command(argv + 7, argv[5]);
	code = wait_command(command, gb_deadline_ms(seconds * 1000), argv[5]);
	print_rss(server);
	if (relay.broken)
		code = 99;
	umount2(argv[5], MNT_FORCE | MNT_DETACH);
	close(control);
	if (gb_wait_child(server, gb_deadline_ms(5000), &status, NULL) < 0 ||
		status != 0) {
		fprintf(stderr, "mount_share: the server did not end well\n");
		kill(server, SIGKILL);
		return 99;
	}
	return code;
}
