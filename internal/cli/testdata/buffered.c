// buffered prints a line through stdio, without a flush, and never ends.
#include <stdio.h>
#include <unistd.h>

int main(void) {
	printf("a line\n");
	for (;;)
		pause();
}
