#include "front/cli/term.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

/* Signal handlers and atexit take no argument, so what they touch is here. */
static struct {
	int signal_read, signal_write;
	int winch_read, winch_write;
	volatile sig_atomic_t seen;
	struct gb_signal_counter counter;
	volatile sig_atomic_t raw; /* saved holds what to put back */
	struct termios saved;
} state = {.signal_read = -1, .signal_write = -1, .winch_read = -1, .winch_write = -1};

enum gb_signal_verdict gb_signal_count(struct gb_signal_counter *c, uint64_t now_ns)
{
	bool soon = c->count && now_ns - c->last_ns <= GB_SIGNAL_FORCE_NS;

	c->count++;
	c->last_ns = now_ns;
	return soon || c->count >= GB_SIGNAL_FORCE_N ? GB_SIGNAL_FORCE
						     : GB_SIGNAL_FORWARD;
}

void gb_term_restore(void)
{
	if (!state.raw)
		return;
	/* a background process that sets its terminal would be stopped */
	signal(SIGTTOU, SIG_IGN);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &state.saved);
	state.raw = 0;
}

/* Only async-signal-safe calls. */
static void on_signal(int signo)
{
	int saved_errno = errno;
	uint8_t byte = (uint8_t)signo;
	ssize_t n;

	if (signo == SIGWINCH) {
		n = write(state.winch_write, &byte, 1);
	} else {
		if (!state.seen)
			state.seen = signo;
		if (gb_signal_count(&state.counter, gb_now_ns()) == GB_SIGNAL_FORCE) {
			gb_term_restore();
			_exit(128 + signo);
		}
		n = write(state.signal_write, &byte, 1);
	}
	/* a full pipe has enough of them */
	(void)n;
	errno = saved_errno;
}

static int signal_pipe(int *ret_read, int *ret_write, struct gb_err *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return gb_fail_sys(err, errno, "cannot make a pipe");
	*ret_read = fds[0];
	*ret_write = fds[1];
	return 0;
}

int gb_signals_fd(void)
{
	return state.signal_read;
}

int gb_signals_winch_fd(void)
{
	return state.winch_read;
}

int gb_signals_catch(struct gb_err *err)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
	int r = signal_pipe(&state.signal_read, &state.signal_write, err);

	if (r == 0)
		r = signal_pipe(&state.winch_read, &state.winch_write, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < GB_ARRAY_SIZE(signals); i++) {
		struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
		struct sigaction old;

		/* all of ours at once, so that one handler does not interrupt another */
		for (size_t j = 0; j < GB_ARRAY_SIZE(signals); j++)
			sigaddset(&act.sa_mask, signals[j]);
		/* nohup and shells without job control ignore some for us: that stays */
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			continue;
		if (sigaction(signals[i], &act, NULL) < 0)
			return gb_fail_sys(
				err, errno, "cannot catch signal %d", signals[i]);
	}
	return 0;
}

int gb_signals_seen(void)
{
	return state.seen;
}

int gb_term_raw(struct gb_err *err)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO))
		return 0;
	if (tcgetattr(STDIN_FILENO, &state.saved) < 0)
		return gb_fail_sys(err, errno, "cannot read the terminal's mode");
	raw = state.saved;
	cfmakeraw(&raw);
	state.raw = 1;
	atexit(gb_term_restore);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return gb_fail_sys(err, errno, "cannot set the terminal's mode");
	return 0;
}

void gb_term_size(unsigned *rows, unsigned *cols)
{
	struct winsize size;

	*rows = 24;
	*cols = 80;
	for (int fd = 0; fd <= 2; fd++) {
		if (ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
			continue;
		*rows = size.ws_row;
		*cols = size.ws_col;
		return;
	}
}
