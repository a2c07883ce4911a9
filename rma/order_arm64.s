#include "textflag.h"

// func Fence()
TEXT ·Fence(SB), NOSPLIT|NOFRAME, $0-0
	DMB	$0xa // ISHST
	RET

// func Drain(word *uint64)
TEXT ·Drain(SB), NOSPLIT|NOFRAME, $0-8
	MOVD	word+0(FP), R0
	MOVD	$1, R1
	MOVD	R1, (R0)
	DMB	$0xb // ISH
	RET
