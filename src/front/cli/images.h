/* Images as the commands need them: found, or made by the image role first. */
#ifndef GB_FRONT_CLI_IMAGES_H
#define GB_FRONT_CLI_IMAGES_H

#include "front/cli/cli.h"
#include "image/image.h"

#define GB_DEFAULT_IMAGE "default"

/* The image that ref means: a name or digest that exists; a source ("tar:x"), imported at
 * its first use under a name made from it; or "": the default image, made at its first use.
 * What is made is said on stderr. */
int gb_cli_image(const struct gb_cli *cli, const char *ref, struct gb_image *ret,
	struct gb_err *err);
/* Run the image role with progress; *ret_digest (may be NULL) is owned. name may be NULL. */
int gb_cli_image_import(const struct gb_cli *cli, const char *name, const char *source,
	char **ret_digest, struct gb_err *err);

/* Whether ref is a source rather than a name or digest. */
bool gb_image_ref_is_source(const char *ref);
/* The name under which a source is kept: "auto-<hex>"; the same for the same source. */
int gb_image_source_name(const char *source, char **ret, struct gb_err *err);
/* Splits what arrives into lines and passes each on; keeps the last one. */
struct gb_line_feed {
	void (*line)(void *ctx, const char *line);
	void *ctx;
	char now[512]; /* what has no newline yet; longer lines are cut */
	size_t len;
	char last[512];
};
void gb_line_feed(struct gb_line_feed *f, const char *data, size_t len);
/* The end: an unfinished line is a line. */
void gb_line_feed_end(struct gb_line_feed *f);

#endif
