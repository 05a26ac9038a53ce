/* Functions that must not be used, made compile errors. Included by force everywhere. */
#ifndef GB_BASE_BANNED_H
#define GB_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strncpy strcat strncat sprintf vsprintf atoi atol atof strtok gets system

#endif
