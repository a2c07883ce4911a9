//go:build !race

#include "textflag.h"

// func hasAVX2() bool
TEXT ·hasAVX2(SB), NOSPLIT, $0-1
	XORL AX, AX
	CPUID
	CMPL AX, $7 // the highest leaf
	JB   without
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $0x18000000, CX // AVX, and XGETBV is permitted
	CMPL CX, $0x18000000
	JNE  without
	XORL CX, CX
	XGETBV
	ANDL $6, AX // the kernel keeps both halves of the registers
	CMPL AX, $6
	JNE  without
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $5, BX
	ANDL $1, BX
	MOVB BX, ret+0(FP)
	RET

without:
	MOVB $0, ret+0(FP)
	RET

// Each function below adds n elements of in to those of acc. n is greater than 0, and a multiple of 16 for elements of 8 bytes, of 32 for those of
// 4: a round takes 128 bytes.

// func addFloat64(acc, in *float64, n int)
TEXT ·addFloat64(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ n+16(FP), CX

float64s:
	VMOVUPD (DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 64(DI), Y2
	VMOVUPD 96(DI), Y3
	VADDPD  (SI), Y0, Y0
	VADDPD  32(SI), Y1, Y1
	VADDPD  64(SI), Y2, Y2
	VADDPD  96(SI), Y3, Y3
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, SI
	SUBQ    $16, CX
	JNZ     float64s
	VZEROUPPER
	RET

// func addFloat32(acc, in *float32, n int)
TEXT ·addFloat32(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ n+16(FP), CX

float32s:
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VADDPS  (SI), Y0, Y0
	VADDPS  32(SI), Y1, Y1
	VADDPS  64(SI), Y2, Y2
	VADDPS  96(SI), Y3, Y3
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, SI
	SUBQ    $32, CX
	JNZ     float32s
	VZEROUPPER
	RET

// func addInt64(acc, in *int64, n int)
TEXT ·addInt64(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ n+16(FP), CX

int64s:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VPADDQ  (SI), Y0, Y0
	VPADDQ  32(SI), Y1, Y1
	VPADDQ  64(SI), Y2, Y2
	VPADDQ  96(SI), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, SI
	SUBQ    $16, CX
	JNZ     int64s
	VZEROUPPER
	RET

// func addInt32(acc, in *int32, n int)
TEXT ·addInt32(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ n+16(FP), CX

int32s:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VPADDD  (SI), Y0, Y0
	VPADDD  32(SI), Y1, Y1
	VPADDD  64(SI), Y2, Y2
	VPADDD  96(SI), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, SI
	SUBQ    $32, CX
	JNZ     int32s
	VZEROUPPER
	RET
