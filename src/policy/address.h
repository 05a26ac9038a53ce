/* Which addresses are not the public internet: one table, asked about literals, the answers
 * of DNS and redirects alike. Pure: no I/O, no allocation.
 *
 * An IPv6 form that carries an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo, ...) is
 * special as a whole, whatever it carries: a host that can reach the IPv4 address has no need
 * of it, and some stacks translate it. */
#ifndef GB_POLICY_ADDRESS_H
#define GB_POLICY_ADDRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_IP_TEXT 46 /* bytes of a formatted address with its NUL */

struct gb_ip {
	bool v6;
	uint8_t b[16]; /* network order; IPv4 in the first four, the others 0 */
};
struct gb_net {
	struct gb_ip base; /* no bit set beyond the prefix */
	unsigned bits;     /* length of the prefix: 0..32 or 0..128 */
};
struct gb_special {
	const char *net;  /* "10.0.0.0/8" */
	const char *name; /* for people: "private use" */
};

/* The usual text forms, whole string; no zone, no octal, no short form ("127.1"), no port.
 * GB_E_PARSE. */
int gb_ip_parse(const char *text, struct gb_ip *ret, struct gb_err *err);
void gb_ip_format(const struct gb_ip *ip, char out[GB_IP_TEXT]);
bool gb_ip_equal(const struct gb_ip *a, const struct gb_ip *b);
/* "203.0.113.0/24" or a bare address. GB_E_PARSE also for bits beyond the prefix. */
int gb_net_parse(const char *text, struct gb_net *ret, struct gb_err *err);
/* False for another family. */
bool gb_net_has(const struct gb_net *net, const struct gb_ip *ip);

/* The narrowest row of the table that has it; NULL: it is public. */
const struct gb_special *gb_ip_special(const struct gb_ip *ip);
/* NULL when a flow may go there: it is public, or one of the exceptions has it. An exception
 * lifts only rows that are not narrower than itself, so "169.254.0.0/16" does not open the
 * metadata service inside; that takes its own address. Else the row that forbids it. */
const struct gb_special *gb_ip_refused(const struct gb_ip *ip, const struct gb_net *exceptions,
	size_t count);

#endif
