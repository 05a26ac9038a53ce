/* Internal: what the pages are that a machine touches first, written when its template is
 * made, read by the library that is loaded into QEMU (prefault.c). A file of ranges. */
#ifndef GB_VMM_QEMU_PREFAULT_H
#define GB_VMM_QEMU_PREFAULT_H

#include <stdint.h>

#define GB_HOT_FILE	  "hot"
#define GB_HOT_PAGE	  4096u
#define GB_HOT_RANGES_MAX 4096u
/* The variable that names its descriptor to the library. */
#define GB_HOT_VARIABLE "GLOVEBOX_HOT_FD"

struct gb_hot_range {
	uint32_t first; /* page of the guest's memory */
	uint32_t count;
	uint32_t write; /* 1: it will be written to */
};

#endif
