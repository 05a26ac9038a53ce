#include "media/sandbox.h"

#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define STATUS_MAX 8192 /* of /proc/self/status */

/* Lines are collected and written at the end: stdio would ask for what is not allowed. */
struct report {
	unsigned int failed;
	struct gb_buf text;
};

static void say(struct report *r, bool ok, const char *what, int errnum)
{
	r->failed += !ok;
	gb_buf_printf(&r->text, "%s: %s%s%s\n", ok ? "ok" : "FAILED", what,
		errnum ? ": " : "", errnum ? strerror(errnum) : "");
}

/* A call that must not succeed. */
static void refused(struct report *r, long result, const char *what)
{
	int errnum = errno;

	say(r, result < 0, what, result < 0 ? errnum : 0);
}

static void check_status(struct report *r, int fd)
{
	static char text[STATUS_MAX];
	size_t n = 0;

	gb_fd_read_full(fd, text, sizeof(text) - 1, &n, NULL);
	say(r, strstr(text, "\nSeccomp:\t2\n"), "Seccomp: 2", 0);
	say(r, strstr(text, "\nNoNewPrivs:\t1\n"), "NoNewPrivs: 1", 0);
	say(r, strstr(text, "\nCapEff:\t0000000000000000\n"), "no capabilities", 0);
	say(r, strstr(text, "\nCapPrm:\t0000000000000000\n"), "none to take up", 0);
}

static void check_calls(struct report *r)
{
	char name[] = "true";
	char *const argv[] = {name, NULL};
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *data = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};

	refused(r, open("/etc/passwd", O_RDONLY), "open /etc/passwd");
	refused(r, open("/proc/self/mem", O_RDWR), "open its own memory");
	refused(r, open(".", O_RDONLY | O_DIRECTORY), "open the current folder");
	refused(r, execv("/bin/true", argv), "exec /bin/true");
	refused(r, socket(AF_INET, SOCK_STREAM, 0), "socket inet");
	refused(r, socket(AF_UNIX, SOCK_STREAM, 0), "socket unix");
	refused(r, fork(), "fork");
	refused(r, kill(getppid(), 0), "signal another process");
	refused(r, ptrace(PTRACE_TRACEME, 0, NULL, NULL), "ptrace");
	refused(r, setrlimit(RLIMIT_CPU, &more), "raise a limit");
	refused(r, code == MAP_FAILED ? -1 : 0, "map executable memory");
	say(r, data != MAP_FAILED, "map memory", data == MAP_FAILED ? errno : 0);
	refused(r, data == MAP_FAILED ? -1 : mprotect(data, 4096, PROT_READ | PROT_EXEC),
		"make memory executable");
}

int gb_media_selftest(int status_fd, unsigned int stages, struct gb_err *err)
{
	struct report r = {0};
	int result;

	gb_buf_init(&r.text, 0);
	check_status(&r, status_fd);
	check_calls(&r);
	gb_buf_printf(&r.text, "stages: %s%s%s%s%s\n",
		stages & GB_MEDIA_NAMESPACES ? "namespaces " : "",
		stages & GB_MEDIA_MOUNTS ? "mounts " : "",
		stages & GB_MEDIA_PRIVILEGES ? "privileges " : "",
		stages & GB_MEDIA_LANDLOCK ? "landlock " : "",
		stages & GB_MEDIA_SECCOMP ? "seccomp" : "");
	result = gb_buf_check(&r.text, "the report", err);
	if (result == 0)
		result = gb_fd_write_full(STDOUT_FILENO, r.text.data, r.text.len, err);
	gb_buf_done(&r.text);
	if (result == 0 && r.failed)
		result = gb_fail(
			err, GB_E_STATE, "%u checks of the sandbox failed", r.failed);
	return result;
}
