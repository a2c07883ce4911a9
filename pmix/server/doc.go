// Package server is a PMIx v4 server for the processes of a step on one node. It serves goshmem's own PEs, Open MPI
// ranks and any other client of the protocol alike, and tools that attach to it.
//
// The server knows several jobs, each a namespace of its own: the first one, and jobs that are spawned later. Requests
// may name processes of all of them.
//
// # Core and driver
//
// The state (stored data, fences, groups, events, what waits for what) is a pure core: core.Step takes an event and
// appends the actions that follow from it. The core knows no sockets, clock or goroutines. Every command has a handler
// in a table (core_request.go), and what one client can make the core keep is bounded.
//
// The driver is thin. One goroutine steps the core and carries out its actions. One goroutine reads and one writes per
// connection. A client that does not read never delays another: its answers wait in a bounded queue of its own. The
// output of a process goes from its writer straight to the connections of those who asked for it. A table says who they
// are; the core makes it anew at every change.
//
// # Map of the core
//
// The core is one struct per feature. Each holds its own state, and shares the queue of actions, the clock and the
// roster of namespaces (common, in core_common.go). Events and actions are in event.go. The table leaves out what most
// of them use: requests come as evFrame, answers go as actSend, and actRefused is for the log.
//
//	struct      files                        part of PMIx                  events                       actions
//	core        core, core_tool              Init, Finalize; jobs, tools   evClaim evClosed evAddJob    actAccept actReject actConnected
//	                                                                       evRemoveJob evExited evTick  actFinalized actLost actDrop
//	fences      core_fence, core_span,       Fence, Connect, Disconnect    evFenceCalled evFenceDone    actFence actExpire
//	            core_connect
//	gets        core_get, share              Commit, Get                   evFetched evServe            actFetch actServed
//	published   core_publish, desk, terms    Publish, Lookup, Unpublish
//	spawns      core_spawn                   Spawn                         evSpawned                    actSpawn
//	forwarding  core_iof                     IOF_pull, _push, _deregister                               actListen actStdin
//	groups      core_group, core_group_far,  Group_construct, _destruct,
//	            core_participants            _leave
//	invites     core_invite                  Group_invite, _join
//	events      core_event, core_event_far,  Notify_event, Register_ and   evNotify
//	            core_exit                    Deregister_event_handler
//	watches     core_monitor                 Process_monitor, Heartbeat
//	queries     core_query, facts,           Query_info
//	            core_query_jobs, attributes,
//	            core_query_far
//	jobControl  core_control,                Abort, Job_control            evClosing                    actAbort actControl actCleanUp
//	            core_control_far
//	errands     core_errands, peers,         requests that other nodes     evAsked evAnswered evTold    actAsk actTell actServed
//	            peer_message                 serve
//	logText     core_log                     Log_data                                                   actLog
//
// A Board has the published data of a job on several nodes, in the front end: a desk with a driver of its own.
//
// Four features have deadlines: fences, gets, published and watches. At evTick core.expireDeadlines looks at them in
// this order. The end of a process or connection (evExited, evClosed) goes through core to each feature that may wait
// for it, in the order that core.recordExit and core.dropRequests list. evOutput is an event of the driver alone; the
// core never gets it.
package server
