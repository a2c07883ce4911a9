// Package client is a PMIx v4 client: it learns its place in a job from the server that started it, exchanges data with
// the other processes of the job, takes part in fences and groups, gets events, and spawns and meets other jobs. A tool
// looks at jobs from outside.
//
// The server may be goshmem's own or any other that speaks the protocol (mpirun, Slurm).
package client
