/* What this host has of what running machines needs, for people. */
#ifndef GB_VMM_DOCTOR_H
#define GB_VMM_DOCTOR_H

#include "base/err.h"
#include "base/mem.h"

/* check: a word or two, stable ("accelerator", "qemu", "kernel", "boot bundle",
 * "templates", "landlock", "seccomp", "user namespaces", "runtime folder"). text: one
 * line. ok false: missing, or worse than it could be; text then ends in what to do. */
typedef void (*gb_doctor_line)(void *ctx, const char *check, bool ok, const char *text);

/* Calls line once for each check, in that order. Starts short-lived processes; takes a
 * second or so, and renews the accelerator's cache. cache_dir is borrowed.
 */
int gb_vmm_doctor(
	const char *cache_dir, gb_doctor_line line, void *ctx, struct gb_err *err);

/* The program that runs machines here and its version, for one line of the doctor's.
 * Starts it; GB_E_NOTFOUND says what to install. */
#define GB_DRIVER_TEXT 512
int gb_driver_qemu_describe(char ret[GB_DRIVER_TEXT], struct gb_err *err);

#endif
