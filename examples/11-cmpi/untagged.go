//go:build !cmpi || !cgo

package main

import (
	"fmt"
	"os"
)

// main stands in for the example where it is built without the tag or without cgo, as ./examples/... is.
func main() {
	fmt.Fprintln(os.Stderr, "11-cmpi is built without C, want Open MPI's compiler (Debian: apt install libopenmpi-dev) and:\n"+
		"    CGO_ENABLED=1 CC=mpicc.openmpi go build -tags cmpi -o .bin/ ./examples/11-cmpi")
	os.Exit(1)
}
