#include "policy/address.h"

#include "rows.h"

struct text_row {
	const char *name;
	const char *text;
	const char *formatted; /* NULL: refused */
};

static const struct text_row text_rows[] = {
	{ "ip: IPv4", "203.0.113.9", "203.0.113.9" },
	{ "ip: IPv6 is made short", "2001:DB8:0:0:0:0:0:1", "2001:db8::1" },
	{ "ip: mapped stays IPv6", "::ffff:1.2.3.4", "::ffff:1.2.3.4" },
	{ "ip: empty", "", NULL },
	{ "ip: short form", "127.1", NULL },
	{ "ip: one number", "2130706433", NULL },
	{ "ip: octal", "0177.0.0.1", NULL },
	{ "ip: hexadecimal", "0x7f.0.0.1", NULL },
	{ "ip: 256", "1.2.3.256", NULL },
	{ "ip: five parts", "1.2.3.4.5", NULL },
	{ "ip: space before", " 1.2.3.4", NULL },
	{ "ip: line end after", "1.2.3.4\n", NULL },
	{ "ip: port", "1.2.3.4:80", NULL },
	{ "ip: brackets", "[::1]", NULL },
	{ "ip: zone", "fe80::1%eth0", NULL },
	{ "ip: two gaps", "1::2::3", NULL },
};

static void text(void **state)
{
	const struct text_row *row = *state;
	char out[GB_IP_TEXT];
	struct gb_ip ip;
	struct gb_err err = { 0 };
	int r = gb_ip_parse(row->text, &ip, &err);

	assert_int_equal(r, row->formatted ? 0 : GB_E_PARSE);
	if (!row->formatted)
		return;
	gb_ip_format(&ip, out);
	assert_string_equal(out, row->formatted);
}

struct net_row {
	const char *name;
	const char *net;
	bool good;
	const char *in;  /* NULL: none is asked */
	const char *out;
};

static const struct net_row net_rows[] = {
	{ "net: /24", "203.0.113.0/24", true, "203.0.113.255", "203.0.114.0" },
	{ "net: /15", "198.18.0.0/15", true, "198.19.255.255", "198.20.0.0" },
	{ "net: /31", "10.0.0.2/31", true, "10.0.0.3", "10.0.0.4" },
	{ "net: /32", "10.0.0.2/32", true, "10.0.0.2", "10.0.0.3" },
	{ "net: bare address", "10.0.0.2", true, "10.0.0.2", "10.0.0.3" },
	{ "net: everything of IPv4", "0.0.0.0/0", true, "255.255.255.255", "::1" },
	{ "net: everything of IPv6", "::/0", true, "ffff::", "0.0.0.0" },
	{ "net: /33 of IPv6", "2001:db8:8000::/33", true, "2001:db8:ffff::1", "2001:db8:7fff::1" },
	{ "net: mapped is not IPv4", "::ffff:0:0/96", true, "::ffff:1.2.3.4", "1.2.3.4" },
	{ "net: /33 of IPv4", "10.0.0.0/33", false, NULL, NULL },
	{ "net: /129", "::/129", false, NULL, NULL },
	{ "net: no number", "10.0.0.0/", false, NULL, NULL },
	{ "net: sign", "10.0.0.0/+8", false, NULL, NULL },
	{ "net: zero in front", "10.0.0.0/08", false, NULL, NULL },
	{ "net: bits beyond", "10.0.0.1/8", false, NULL, NULL },
	{ "net: bits beyond in the byte", "10.192.0.0/9", false, NULL, NULL },
	{ "net: mask", "10.0.0.0/255.0.0.0", false, NULL, NULL },
	{ "net: two prefixes", "10.0.0.0/8/8", false, NULL, NULL },
	{ "net: too long", "1111:1111:1111:1111:1111:1111:1111:1111:1111:1111/8", false, NULL, NULL },
};

static void net(void **state)
{
	const struct net_row *row = *state;
	struct gb_net n;
	struct gb_ip ip;

	assert_int_equal(gb_net_parse(row->net, &n, NULL), row->good ? 0 : GB_E_PARSE);
	if (!row->good)
		return;
	assert_int_equal(gb_ip_parse(row->in, &ip, NULL), 0);
	assert_true(gb_net_has(&n, &ip));
	assert_int_equal(gb_ip_parse(row->out, &ip, NULL), 0);
	assert_false(gb_net_has(&n, &ip));
}

struct special_row {
	const char *name; /* the address */
	const char *net;  /* NULL: public */
};

/* The last address before, the first and the last inside, the first after. */
static const struct special_row special_rows[] = {
	{ "0.0.0.0", "0.0.0.0/32" },
	{ "0.0.0.1", "0.0.0.0/8" },
	{ "0.255.255.255", "0.0.0.0/8" },
	{ "1.0.0.0", NULL },
	{ "9.255.255.255", NULL },
	{ "10.0.0.0", "10.0.0.0/8" },
	{ "10.255.255.255", "10.0.0.0/8" },
	{ "11.0.0.0", NULL },
	{ "100.63.255.255", NULL },
	{ "100.64.0.0", "100.64.0.0/10" },
	{ "100.100.100.200", "100.100.100.200/32" },
	{ "100.127.255.255", "100.64.0.0/10" },
	{ "100.128.0.0", NULL },
	{ "126.255.255.255", NULL },
	{ "127.0.0.1", "127.0.0.0/8" },
	{ "127.255.255.255", "127.0.0.0/8" },
	{ "128.0.0.0", NULL },
	{ "168.63.129.15", NULL },
	{ "168.63.129.16", "168.63.129.16/32" },
	{ "168.63.129.17", NULL },
	{ "169.253.255.255", NULL },
	{ "169.254.0.0", "169.254.0.0/16" },
	{ "169.254.169.254", "169.254.169.254/32" },
	{ "169.254.170.2", "169.254.170.2/32" },
	{ "169.255.0.0", NULL },
	{ "172.15.255.255", NULL },
	{ "172.16.0.0", "172.16.0.0/12" },
	{ "172.31.255.255", "172.16.0.0/12" },
	{ "172.32.0.0", NULL },
	{ "192.0.0.1", "192.0.0.0/24" },
	{ "192.0.0.192", "192.0.0.192/32" },
	{ "192.0.1.0", NULL },
	{ "192.0.2.1", "192.0.2.0/24" },
	{ "192.0.3.0", NULL },
	{ "192.88.98.255", NULL },
	{ "192.88.99.1", "192.88.99.0/24" },
	{ "192.167.255.255", NULL },
	{ "192.168.0.0", "192.168.0.0/16" },
	{ "192.169.0.0", NULL },
	{ "198.17.255.255", NULL },
	{ "198.18.0.0", "198.18.0.0/15" },
	{ "198.19.255.255", "198.18.0.0/15" },
	{ "198.20.0.0", NULL },
	{ "198.51.100.7", "198.51.100.0/24" },
	{ "203.0.113.7", "203.0.113.0/24" },
	{ "223.255.255.255", NULL },
	{ "224.0.0.0", "224.0.0.0/4" },
	{ "239.255.255.255", "224.0.0.0/4" },
	{ "240.0.0.0", "240.0.0.0/4" },
	{ "255.255.255.255", "255.255.255.255/32" },
	{ "::", "::/128" },
	{ "::1", "::1/128" },
	{ "::2", "::/96" },
	{ "::127.0.0.1", "::/96" },
	{ "::ffff:127.0.0.1", "::ffff:0:0/96" },
	{ "::ffff:8.8.8.8", "::ffff:0:0/96" },
	{ "::ffff:0:8.8.8.8", "::ffff:0:0:0/96" },
	{ "64:ff9b::7f00:1", "64:ff9b::/96" },
	{ "64:ff9b:1::7f00:1", "64:ff9b:1::/48" },
	{ "100::1", "100::/64" },
	{ "2000::1", NULL },
	{ "2001::1", "2001::/32" },
	{ "2001:1::1", "2001::/23" },
	{ "2001:1ff:ffff::", "2001::/23" },
	{ "2001:200::1", NULL },
	{ "2001:db8::1", "2001:db8::/32" },
	{ "2001:4860:4860::8888", NULL },
	{ "2002:7f00:1::", "2002::/16" },
	{ "2003::1", NULL },
	{ "2606:4700::1111", NULL },
	{ "3fff::1", "3fff::/20" },
	{ "3fff:1000::1", NULL },
	{ "4000::1", "4000::/2" },
	{ "5f00::1", "5f00::/16" },
	{ "fbff::1", "8000::/1" },
	{ "fc00::1", "fc00::/7" },
	{ "fd00:ec2::254", "fd00:ec2::254/128" },
	{ "fdff::1", "fc00::/7" },
	{ "fe80::1", "fe80::/10" },
	{ "fe80::a9fe:a9fe", "fe80::a9fe:a9fe/128" },
	{ "febf::1", "fe80::/10" },
	{ "fec0::1", "fec0::/10" },
	{ "ff02::1", "ff00::/8" },
};

static void special(void **state)
{
	const struct special_row *row = *state;
	const struct gb_special *s;
	struct gb_ip ip;

	assert_int_equal(gb_ip_parse(row->name, &ip, NULL), 0);
	s = gb_ip_special(&ip);
	if (row->net) {
		assert_non_null(s);
		assert_string_equal(s->net, row->net);
	} else {
		assert_null(s);
	}
}

struct exception_row {
	const char *name;
	const char *ip;
	const char *exceptions[2];
	bool refused;
};

static const struct exception_row exception_rows[] = {
	{ "exception: none", "10.1.2.3", { NULL }, true },
	{ "exception: public needs none", "8.8.8.8", { NULL }, false },
	{ "exception: inside", "10.1.2.3", { "10.1.0.0/16" }, false },
	{ "exception: as wide as the row", "10.1.2.3", { "10.0.0.0/8" }, false },
	{ "exception: wider than the row", "10.1.2.3", { "0.0.0.0/0" }, true },
	{ "exception: another", "10.2.2.3", { "10.1.0.0/16" }, true },
	{ "exception: the second", "10.2.2.3", { "10.1.0.0/16", "10.2.0.0/16" }, false },
	{ "exception: link-local", "169.254.1.1", { "169.254.0.0/16" }, false },
	{ "exception: metadata is not opened by its net", "169.254.169.254", { "169.254.0.0/16" }, true },
	{ "exception: metadata by itself", "169.254.169.254", { "169.254.169.254" }, false },
	{ "exception: mapped is not IPv4", "::ffff:10.1.2.3", { "10.0.0.0/8" }, true },
	{ "exception: IPv6", "fd00:1::5", { "fd00:1::/32" }, false },
};

static void exception(void **state)
{
	const struct exception_row *row = *state;
	struct gb_net nets[2];
	size_t n = 0;
	struct gb_ip ip;

	for (; n < 2 && row->exceptions[n]; n++)
		assert_int_equal(gb_net_parse(row->exceptions[n], &nets[n], NULL), 0);
	assert_int_equal(gb_ip_parse(row->ip, &ip, NULL), 0);
	assert_int_equal(gb_ip_refused(&ip, nets, n) != NULL, row->refused);
}

int main(void)
{
	struct rows_list l = { 0 };

	rows_add(&l, text_rows, text);
	rows_add(&l, net_rows, net);
	rows_add(&l, special_rows, special);
	rows_add(&l, exception_rows, exception);
	return rows_run("policy address", &l);
}
