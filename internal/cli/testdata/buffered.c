// buffered prints a line as any program does and never ends.
#include <stdio.h>
#include <unistd.h>

int main(void) {
	printf("a line\n");
	for (;;)
		pause();
}
