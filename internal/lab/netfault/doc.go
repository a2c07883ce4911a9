// Package netfault loses packets between emulated nodes: the network that this machine has is better than those on which
// jobs run.
//
// A program in the kernel (tcx) looks at all packets that come in on an interface and drops some. On a port of the
// bridge between emulated nodes these are the packets that the node behind it has sent, whoever in the node has sent them:
// daemons, agents, the kernel's responder, TCP itself. Each packet between two nodes passes one port, so that a question
// with its answer is in danger twice.
//
// What netem of Linux does as well needs a module that not every kernel has, and rights over all interfaces.
//
//   - Source: Zhong et al. measure accuracy on a network that loses nothing; losses are an addition (docs/detection.md,
//     Figure 8).
package netfault

//go:generate go tool -modfile=../../../tools/go.mod bpf2go -target bpfel -tags linux lose bpf/lose.bpf.c -- -Wall -Werror -mcpu=v2
