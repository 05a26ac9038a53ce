#include "share/selftest.h"

#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PROBE_NAME ".glovebox-self-test"

int gb_selftest_open_status(void)
{
	return open("/proc/self/status", O_RDONLY | O_CLOEXEC);
}

struct report {
	unsigned int failed;
};

static void say(struct report *r, bool ok, const char *what, int errnum)
{
	r->failed += !ok;
	printf("%s: %s%s%s\n", ok ? "ok" : "FAILED", what, errnum ? ": " : "",
		errnum ? strerror(errnum) : "");
}

/* A call that must not succeed. */
static void refused(struct report *r, long result, const char *what)
{
	int errnum = errno;

	say(r, result < 0, what, result < 0 ? errnum : 0);
}

static void check_status(struct report *r, int fd)
{
	char text[4096];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[GB_MAX(n, 0)] = 0;
	say(r, strstr(text, "\nSeccomp:\t2\n"), "Seccomp: 2", 0);
	say(r, strstr(text, "\nNoNewPrivs:\t1\n"), "NoNewPrivs: 1", 0);
	say(r, strstr(text, "\nCapBnd:\t0000000000000000\n") || geteuid() != 0,
		"capabilities cannot be gained", 0);
}

static void check_calls(struct report *r)
{
	char name[] = "true";
	char *const argv[] = { name, NULL };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(80) };
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	refused(r, open("/etc/passwd", O_RDONLY), "open /etc/passwd");
	refused(r, execv("/bin/true", argv), "exec /bin/true");
	refused(r, socket(AF_INET, SOCK_STREAM, 0), "socket inet");
	refused(r, socket(AF_UNIX, SOCK_STREAM, 0), "socket unix");
	refused(r, connect(0, (struct sockaddr *)&a, sizeof(a)), "connect");
	refused(r, ptrace(PTRACE_TRACEME, 0, NULL, NULL), "ptrace");
	refused(r, kill(getppid(), 0), "signal another process");
	refused(r, fork(), "fork");
	refused(r, code == MAP_FAILED ? -1 : 0, "map executable memory");
}

/* Out of the folder by "..", by a link, by an absolute name. */
static void check_containment(struct report *r, int root, unsigned int stages)
{
	struct stat here, up;

	refused(r, openat(root, "../etc/passwd", O_RDONLY), "open ../etc/passwd in a share");
	refused(r, openat(root, "..", O_RDONLY | O_DIRECTORY | O_NONBLOCK) < 0 ||
				(fstatat(root, ".", &here, 0) == 0 &&
					fstatat(root, "..", &up, 0) == 0 &&
					here.st_ino == up.st_ino && here.st_dev == up.st_dev)
			? -1
			: 0,
		"leave a share by ..");
	if (stages & GB_SANDBOX_MOUNTS)
		refused(r, fstatat(root, "/etc", &up, 0), "see /etc at all");
	refused(r, mknodat(root, PROBE_NAME, S_IFCHR | 0600, 0x103), "make a device");
	refused(r, openat(root, PROBE_NAME, O_CREAT | O_WRONLY, 04755), "make a setuid file");
}

static void check_share(struct report *r, int root, bool read_only, unsigned int stages)
{
	gb_auto_fd fd = -1;

	check_containment(r, root, stages);
	fd = openat(root, PROBE_NAME, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (read_only) {
		refused(r, fd, "write to a read-only share");
		return;
	}
	say(r, fd >= 0 && write(fd, "x", 1) == 1, "write to a share", fd < 0 ? errno : 0);
	say(r, unlinkat(root, PROBE_NAME, 0) == 0, "remove from a share", 0);
}

int gb_selftest_run(const struct gb_share_server_config *config, int status_fd,
	unsigned int stages, struct gb_err *err)
{
	struct report r = { 0 };

	check_status(&r, status_fd);
	check_calls(&r);
	for (size_t i = 0; i < GB_SHARE_MAX; i++)
		if (config->shares[i].used)
			check_share(&r, config->shares[i].root_fd,
				config->shares[i].read_only, stages);
	printf("stages: %s%s%s%s%s\n", stages & GB_SANDBOX_NAMESPACES ? "namespaces " : "",
		stages & GB_SANDBOX_MOUNTS ? "mounts " : "",
		stages & GB_SANDBOX_PRIVILEGES ? "privileges " : "",
		stages & GB_SANDBOX_LANDLOCK ? "landlock " : "",
		stages & GB_SANDBOX_SECCOMP ? "seccomp" : "");
	fflush(stdout);
	if (r.failed)
		return gb_fail(err, GB_E_STATE, "%u checks of the sandbox failed", r.failed);
	return 0;
}
