#include "textflag.h"

// func OffStack(p unsafe.Pointer) unsafe.Pointer
TEXT ·OffStack(SB), NOSPLIT|NOFRAME, $0-16
	MOVQ (TLS), CX  // the goroutine, which begins with the bounds of its stack
	MOVQ p+0(FP), AX
	CMPQ AX, 0(CX)
	JB   off
	CMPQ AX, 8(CX)
	JAE  off
	XORL AX, AX
off:
	MOVQ AX, ret+8(FP)
	RET
