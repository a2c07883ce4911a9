#include "textflag.h"

// func Fence()
TEXT ·Fence(SB), NOSPLIT|NOFRAME, $0-0
	DMB	$0xa // ISHST
	RET

// func Drain()
TEXT ·Drain(SB), NOSPLIT|NOFRAME, $0-0
	DMB	$0xb // ISH
	RET
