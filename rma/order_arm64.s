#include "textflag.h"

// func Fence()
TEXT ·Fence(SB), NOSPLIT|NOFRAME, $0-0
	DMB	$0xa // ISHST
	RET

// func Drain(_ *uint32)
TEXT ·Drain(SB), NOSPLIT|NOFRAME, $0-8
	DMB	$0xb // ISH
	RET
