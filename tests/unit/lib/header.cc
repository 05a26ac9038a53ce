/* The public header alone, as C and as C++; and nothing but its names shows. */
#include <glovebox.h>

int main(void)
{
	return glovebox_version()[0] ? 0 : 1;
}
