#include "textflag.h"

// func OffStack(p unsafe.Pointer) unsafe.Pointer
TEXT ·OffStack(SB), NOSPLIT|NOFRAME, $0-16
	MOVD 0(g), R1 // the goroutine begins with the bounds of its stack
	MOVD 8(g), R2
	MOVD p+0(FP), R0
	CMP  R1, R0
	BLO  off
	CMP  R2, R0
	BHS  off
	MOVD $0, R0
off:
	MOVD R0, ret+8(FP)
	RET
