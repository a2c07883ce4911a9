// Package client is a PMIx v4 client. A process learns its place in a job from the server that started it, exchanges
// data with the other processes of the job, takes part in fences and groups, handles events, spawns jobs, and connects
// to others. A tool observes jobs from outside.
//
// The server is goshmem's own or any other that speaks the protocol (mpirun, Slurm).
//
// A Client has these services, each in a file of its own:
//
//	Client      the job's description, Put, Commit and Get, fences, Publish and Lookup, Query, Log, ControlProcs
//	Events      handlers, Notify, programming models
//	Groups      Construct and Destruct, Invite and Join
//	Jobs        Spawn, Connect and Disconnect
//	Forwarding  output and input of other processes
//	Heartbeats  the server's watch over this process
package client
