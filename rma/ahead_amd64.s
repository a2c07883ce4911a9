#include "textflag.h"

// func Ahead(p unsafe.Pointer)
TEXT ·Ahead(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know
	RET
