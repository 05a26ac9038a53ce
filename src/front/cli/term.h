/* Our terminal and our signals while a command runs in a machine. */
#ifndef GB_FRONT_CLI_TERM_H
#define GB_FRONT_CLI_TERM_H

#include "base/err.h"
#include "base/mem.h"

/* What to do with a signal that would end us. Pure, so that it can be tested. */
enum gb_signal_verdict { GB_SIGNAL_FORWARD, GB_SIGNAL_FORCE };
struct gb_signal_counter {
	unsigned count;
	uint64_t last_ns;
};
#define GB_SIGNAL_FORCE_NS UINT64_C(2000000000) /* a second one within it forces */
#define GB_SIGNAL_FORCE_N  3u                   /* so does the third at any time */
enum gb_signal_verdict gb_signal_count(struct gb_signal_counter *c, uint64_t now_ns);

/* From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT become bytes of gb_signals_fd, and
 * SIGWINCH bytes of gb_signals_winch_fd (both borrowed, for good); the second or third of
 * the first four puts the terminal back and ends the process. */
int gb_signals_catch(struct gb_err *err);
int gb_signals_fd(void); /* -1 before they are caught */
int gb_signals_winch_fd(void);
/* The first of those signals that came, 0 if none did. */
int gb_signals_seen(void);

/* Raw mode of our terminal (standard input), when it is one; put back by gb_term_restore,
 * by a forced end and at exit. */
int gb_term_raw(struct gb_err *err);
void gb_term_restore(void);
/* Of the terminal at 0, 1 or 2; 24 x 80 when there is none. */
void gb_term_size(unsigned *rows, unsigned *cols);

#endif
