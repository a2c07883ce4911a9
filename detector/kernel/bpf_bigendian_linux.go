//go:build !(386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64)

package kernel

func openBPF(*Watch) (source, error) {
	return nil, &TierError{BPF, "a little-endian processor", nil}
}
