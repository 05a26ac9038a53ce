/* A configuration file of a stranger's project: any bytes are read without harm. */
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct gb_config_base base = { "/base", "/home" };
	enum gb_config_source source = size && data[0] & 1 ? GB_CONFIG_FROM_PROJECT
							   : GB_CONFIG_FROM_USER;
	struct gb_config c;

	if (gb_config_defaults(&c, NULL) == 0 && size)
		gb_config_read_text(&c, "F", (const char *)data + 1, size - 1, source, &base,
			NULL);
	gb_config_done(&c);
	return 0;
}
