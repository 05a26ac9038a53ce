/* Sources of the table: the IANA registries of special-purpose IPv4 and IPv6 addresses (RFC
 * 6890 and its updates), IPv4 and IPv6 multicast, RFC 3879 (site-local), RFC 4291 2.5.5
 * (compatible and mapped), RFC 6052 (NAT64), RFC 8215, RFC 9637 (documentation), RFC 9602
 * (SRv6); the metadata addresses are those that the clouds document for themselves. */
#include "policy/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* The narrowest that fits counts: order does not matter. */
static const struct gb_special table[] = {
	{ "0.0.0.0/8", "this network" },
	{ "0.0.0.0/32", "unspecified" },
	{ "10.0.0.0/8", "private use" },
	{ "100.64.0.0/10", "shared address space of carriers" },
	{ "100.100.100.200/32", "metadata service of a cloud" },
	{ "127.0.0.0/8", "loopback" },
	{ "168.63.129.16/32", "metadata service of a cloud" },
	{ "169.254.0.0/16", "link-local" },
	{ "169.254.0.23/32", "metadata service of a cloud" },
	{ "169.254.42.42/32", "metadata service of a cloud" },
	{ "169.254.169.254/32", "metadata service of a cloud" },
	{ "169.254.169.253/32", "name service of a cloud" },
	{ "169.254.169.123/32", "time service of a cloud" },
	{ "169.254.170.2/32", "credentials service of a cloud" },
	{ "169.254.170.23/32", "credentials service of a cloud" },
	{ "172.16.0.0/12", "private use" },
	{ "192.0.0.0/24", "protocol assignments" },
	{ "192.0.0.192/32", "metadata service of a cloud" },
	{ "192.0.2.0/24", "documentation" },
	{ "192.31.196.0/24", "AS112 name service" },
	{ "192.52.193.0/24", "multicast relays" },
	{ "192.88.99.0/24", "6to4 relays" },
	{ "192.168.0.0/16", "private use" },
	{ "192.175.48.0/24", "AS112 name service" },
	{ "198.18.0.0/15", "benchmarking" },
	{ "198.51.100.0/24", "documentation" },
	{ "203.0.113.0/24", "documentation" },
	{ "224.0.0.0/4", "multicast" },
	{ "240.0.0.0/4", "reserved" },
	{ "255.255.255.255/32", "broadcast" },

	{ "::/8", "reserved" },
	{ "::/96", "IPv4-compatible" },
	{ "::/128", "unspecified" },
	{ "::1/128", "loopback" },
	{ "::ffff:0:0/96", "IPv4-mapped" },
	{ "::ffff:0:0:0/96", "IPv4-translated" },
	{ "64:ff9b::/96", "NAT64" },
	{ "64:ff9b:1::/48", "NAT64 of a site" },
	{ "100::/8", "reserved" },
	{ "100::/64", "discard only" },
	{ "100:0:0:1::/64", "dummy prefix" },
	{ "200::/7", "reserved" },
	{ "400::/6", "reserved" },
	{ "800::/5", "reserved" },
	{ "1000::/4", "reserved" },
	{ "2001::/23", "protocol assignments" },
	{ "2001::/32", "Teredo" },
	{ "2001:2::/48", "benchmarking" },
	{ "2001:db8::/32", "documentation" },
	{ "2002::/16", "6to4" },
	{ "2620:4f:8000::/48", "AS112 name service" },
	{ "3fff::/20", "documentation" },
	{ "4000::/2", "reserved" },
	{ "5f00::/16", "segment routing" },
	{ "8000::/1", "reserved" },
	{ "fc00::/7", "private use (unique local)" },
	{ "fd00:ec2::23/128", "credentials service of a cloud" },
	{ "fd00:ec2::253/128", "name service of a cloud" },
	{ "fd00:ec2::254/128", "metadata service of a cloud" },
	{ "fd20:ce::254/128", "metadata service of a cloud" },
	{ "fd00:c1::a9fe:a9fe/128", "metadata service of a cloud" },
	{ "fe80::/10", "link-local" },
	{ "fe80::a9fe:a9fe/128", "metadata service of a cloud" },
	{ "fec0::/10", "site-local" },
	{ "ff00::/8", "multicast" },
};

int gb_ip_parse(const char *text, struct gb_ip *ret, struct gb_err *err)
{
	struct gb_ip ip = { .v6 = strchr(text, ':') };

	if (inet_pton(ip.v6 ? AF_INET6 : AF_INET, text, ip.b) != 1)
		return gb_fail(err, GB_E_PARSE, "'%.64s' is not an IP address", text);
	*ret = ip;
	return 0;
}

void gb_ip_format(const struct gb_ip *ip, char out[GB_IP_TEXT])
{
	inet_ntop(ip->v6 ? AF_INET6 : AF_INET, ip->b, out, GB_IP_TEXT);
}

bool gb_ip_equal(const struct gb_ip *a, const struct gb_ip *b)
{
	return a->v6 == b->v6 && memcmp(a->b, b->b, a->v6 ? 16 : 4) == 0;
}

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8;
	uint8_t mask = (uint8_t)(0xff00u >> bits % 8);

	return memcmp(a, b, whole) == 0 &&
	       (bits % 8 == 0 || ((a[whole] ^ b[whole]) & mask) == 0);
}

static int parse_bits(const char *text, unsigned most, unsigned *ret)
{
	unsigned bits = 0;

	if (!*text || strlen(text) > 3 || strspn(text, "0123456789") != strlen(text) ||
		(text[0] == '0' && text[1]))
		return GB_E_PARSE;
	for (; *text; text++)
		bits = bits * 10 + (unsigned)(*text - '0');
	*ret = bits;
	return bits <= most ? 0 : GB_E_PARSE;
}

int gb_net_parse(const char *text, struct gb_net *ret, struct gb_err *err)
{
	static const uint8_t zero[16];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	char address[GB_IP_TEXT];
	struct gb_net net;
	unsigned most;
	uint8_t rest[16];

	if (len >= sizeof(address))
		return gb_fail(err, GB_E_PARSE, "'%.64s' is not a network", text);
	memcpy(address, text, len);
	address[len] = 0;
	if (gb_ip_parse(address, &net.base, NULL) < 0)
		return gb_fail(err, GB_E_PARSE, "'%.64s' is not a network", text);
	most = net.base.v6 ? 128 : 32;
	net.bits = most;
	if (slash && parse_bits(slash + 1, most, &net.bits) < 0)
		return gb_fail(err, GB_E_PARSE, "'%.64s': the prefix is not 0 to %u bits", text,
			most);
	memcpy(rest, net.base.b, sizeof(rest));
	memset(rest, 0, net.bits / 8);
	if (net.bits % 8)
		rest[net.bits / 8] &= (uint8_t)(0xffu >> net.bits % 8);
	if (memcmp(rest, zero, sizeof(rest)) != 0)
		return gb_fail(err, GB_E_PARSE, "'%.64s' has bits set beyond its prefix", text);
	*ret = net;
	return 0;
}

bool gb_net_has(const struct gb_net *net, const struct gb_ip *ip)
{
	return net->base.v6 == ip->v6 && same_prefix(net->base.b, ip->b, net->bits);
}

static const struct gb_special *find(const struct gb_ip *ip, unsigned *ret_bits)
{
	const struct gb_special *best = NULL;
	unsigned bits = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gb_net net;

		/* a row that cannot be read would refuse everything */
		if (gb_net_parse(table[i].net, &net, NULL) == 0 && !gb_net_has(&net, ip))
			continue;
		if (!best || net.bits > bits) {
			best = &table[i];
			bits = net.bits;
		}
	}
	*ret_bits = bits;
	return best;
}

const struct gb_special *gb_ip_special(const struct gb_ip *ip)
{
	unsigned bits;

	return find(ip, &bits);
}

const struct gb_special *gb_ip_refused(const struct gb_ip *ip, const struct gb_net *exceptions,
	size_t count)
{
	unsigned bits;
	const struct gb_special *row = find(ip, &bits);

	for (size_t i = 0; row && i < count; i++)
		if (exceptions[i].bits >= bits && gb_net_has(&exceptions[i], ip))
			row = NULL;
	return row;
}
