//go:build !(386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64)

package responder

func openKernel(*Responder) (source, error) {
	return nil, &TierError{Kernel, "a little-endian processor", nil}
}
