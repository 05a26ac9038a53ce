/* Writes a small picture of each kind into the folder that is named: seeds for fuzz_media. */
#include "pictures.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>

static const struct {
	const char *name;
	picture_maker *make;
	struct wish wish;
} all[] = {
	{ "png", make_png, { 9, 7, 0, 0 } },
	{ "png-alpha16", make_png, { 9, 7, ALPHA | SIXTEEN, 0 } },
	{ "png-grey", make_png, { 9, 7, GREY, 0 } },
	{ "png-interlaced", make_png, { 9, 7, INTERLACED, 0 } },
	{ "png-palette", make_png, { 9, 7, PALETTE | ALPHA, 0 } },
	{ "png-turned", make_png, { 9, 7, ICC, 5 } },
	{ "png-wide", make_png, { 2100, 1, 0, 0 } },
	{ "jpeg", make_jpeg, { 9, 7, 0, 0 } },
	{ "jpeg-cmyk", make_jpeg, { 9, 7, CMYK, 0 } },
	{ "jpeg-grey", make_jpeg, { 9, 7, GREY, 0 } },
	{ "jpeg-progressive", make_jpeg, { 9, 7, INTERLACED, 0 } },
	{ "jpeg-turned", make_jpeg, { 9, 7, ICC, 6 } },
	{ "jpeg-ycck", make_jpeg, { 9, 7, YCCK, 0 } },
	{ "gif", make_gif, { 9, 7, 0, 0 } },
	{ "gif-animated", make_gif, { 9, 7, ANIMATED | ALPHA, 0 } },
	{ "gif-interlaced", make_gif, { 9, 7, INTERLACED | OFFSET | PALETTE, 0 } },
	{ "webp-animated", make_webp, { 8, 6, ANIMATED | OFFSET, 0 } },
	{ "webp-lossless", make_webp, { 9, 7, ALPHA, 0 } },
	{ "webp-lossy", make_webp, { 9, 7, LOSSY | ALPHA, 0 } },
	{ "webp-turned", make_webp, { 9, 7, ICC, 7 } },
	{ "bmp", make_bmp, { 9, 7, 0, 0 } },
	{ "bmp-32", make_bmp, { 9, 7, BITS32 | ALPHA, 0 } },
	{ "bmp-masks", make_bmp, { 9, 7, MASKS, 0 } },
	{ "bmp-os2", make_bmp, { 9, 7, OS2, 0 } },
	{ "bmp-palette4", make_bmp, { 9, 7, PALETTE | BITS4 | TOP_DOWN, 0 } },
	{ "bmp-rle4", make_bmp, { 10, 7, RLE | BITS4, 0 } },
	{ "bmp-rle8", make_bmp, { 9, 7, RLE, 0 } },
	{ "pam", make_pnm, { 9, 7, PAM | ALPHA, 0 } },
	{ "pbm", make_pnm, { 9, 7, PALETTE, 0 } },
	{ "pbm-text", make_pnm, { 9, 7, PALETTE | TEXT, 0 } },
	{ "pgm-16", make_pnm, { 9, 7, GREY | SIXTEEN, 0 } },
	{ "ppm", make_pnm, { 9, 7, 0, 0 } },
	{ "ppm-text", make_pnm, { 4, 3, TEXT, 0 } },
};

int main(int argc, char **argv)
{
	int dir = argc == 2 ? open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	if (dir < 0) {
		fprintf(stderr, "make_seeds FOLDER\n");
		return 2;
	}
	for (size_t i = 0; i < GB_ARRAY_SIZE(all); i++) {
		gb_auto_done(gb_buf) file = { 0 };
		gb_auto_fd fd = openat(dir, all[i].name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

		all[i].make(&all[i].wish, &file);
		if (fd < 0 || gb_fd_write_full(fd, file.data, file.len, NULL) < 0)
			return 1;
	}
	close(dir);
	return 0;
}
