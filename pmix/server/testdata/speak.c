/* A PMIx client that uses the part of the interface that its argument names. It
 * prints a line for each call, with the status. */
#include <pmix.h>
#include <pmix_tool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static void said(const char *what, pmix_status_t rc) {
    printf("%s: %s\n", what, PMIx_Error_string(rc));
    fflush(stdout);
}

/* the state of a wait for a callback */
static volatile int pending;
static pmix_status_t outcome;

static void finish(pmix_status_t rc) {
    outcome = rc;
    __sync_synchronize();
    pending = 0;
}
static void op_done(pmix_status_t rc, void *arg) {
    (void) arg;
    finish(rc);
}
static void cred_done(pmix_status_t rc, pmix_byte_object_t *cred, pmix_info_t info[], size_t n, void *arg) {
    (void) cred;
    (void) info;
    (void) n;
    (void) arg;
    finish(rc);
}
static void valid_done(pmix_status_t rc, pmix_info_t info[], size_t n, void *arg) {
    (void) info;
    (void) n;
    (void) arg;
    finish(rc);
}
static void reg_done(pmix_status_t rc, size_t ref, void *arg) {
    (void) arg;
    finish(rc < 0 ? rc : (pmix_status_t) ref);
}
static pmix_status_t await(pmix_status_t rc) {
    if (rc != PMIX_SUCCESS) {
        return rc;
    }
    while (pending) {
        usleep(1000);
    }
    __sync_synchronize();
    return outcome;
}

static void publish(void) {
    pmix_info_t *info;
    pmix_pdata_t *data;
    pmix_data_range_t range = PMIX_RANGE_NAMESPACE;
    pmix_persistence_t persist = PMIX_PERSIST_FIRST_READ;
    int wait = 1, seconds = 5;
    uint32_t uid = 4711;
    char *keys[] = {"port", "missing", NULL};
    pmix_data_array_t uids = {.type = PMIX_UINT32, .size = 1, .array = &uid};
    pmix_info_t *access;
    pmix_data_array_t perms;

    PMIX_INFO_CREATE(info, 4);
    PMIX_INFO_LOAD(&info[0], "port", "tcp://host:1", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], "count", &uid, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[2], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    PMIX_INFO_LOAD(&info[3], PMIX_PERSISTENCE, &persist, PMIX_PERSIST);
    said("publish with range and persistence", PMIx_Publish(info, 4));
    said("publish it again", PMIx_Publish(info, 4));
    PMIX_INFO_FREE(info, 4);

    PMIX_INFO_CREATE(access, 1);
    PMIX_INFO_LOAD(&access[0], PMIX_ACCESS_USERIDS, &uids, PMIX_DATA_ARRAY);
    perms = (pmix_data_array_t){.type = PMIX_INFO, .size = 1, .array = access};
    PMIX_INFO_CREATE(info, 2);
    PMIX_INFO_LOAD(&info[0], "shared", "value", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_ACCESS_PERMISSIONS, &perms, PMIX_DATA_ARRAY);
    said("publish with access", PMIx_Publish(info, 2));
    PMIX_INFO_FREE(info, 2);

    PMIX_PDATA_CREATE(data, 2);
    PMIX_LOAD_KEY(data[0].key, "port");
    PMIX_LOAD_KEY(data[1].key, "count");
    PMIX_INFO_CREATE(info, 3);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &wait, PMIX_INT);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    PMIX_INFO_LOAD(&info[2], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    said("lookup with wait, timeout and range", PMIx_Lookup(data, 2, info, 3));
    printf("port is %s, count is %u, of rank %u\n", data[0].value.data.string, data[1].value.data.uint32,
           data[0].proc.rank);
    PMIX_INFO_FREE(info, 3);
    PMIX_PDATA_FREE(data, 2);

    PMIX_PDATA_CREATE(data, 1);
    PMIX_LOAD_KEY(data[0].key, "port");
    said("lookup of what was read", PMIx_Lookup(data, 1, NULL, 0));
    PMIX_PDATA_FREE(data, 1);
    said("unpublish what was read", PMIx_Unpublish(keys, NULL, 0));
    keys[0] = "shared";
    said("unpublish one of two", PMIx_Unpublish(keys, NULL, 0));
    said("unpublish all", PMIx_Unpublish(NULL, NULL, 0));
}

static void ask(const char *what, pmix_query_t *q, size_t n) {
    pmix_info_t *results = NULL;
    size_t got = 0;
    pmix_status_t rc = PMIx_Query_info(q, n, &results, &got);
    said(what, rc);
    for (size_t i = 0; i < got; i++) {
        pmix_value_t *v = &results[i].value;
        if (v->type == PMIX_STRING) {
            printf("  %s = %s\n", results[i].key, v->data.string);
        } else if (v->type == PMIX_UINT32) {
            printf("  %s = %u\n", results[i].key, v->data.uint32);
        } else if (v->type == PMIX_STATUS) {
            printf("  %s = %s\n", results[i].key, PMIx_Error_string(v->data.status));
        } else if (v->type == PMIX_SIZE) {
            printf("  %s = %zu\n", results[i].key, v->data.size);
        } else if (v->type == PMIX_DATA_ARRAY && v->data.darray->type == PMIX_PROC_INFO) {
            pmix_proc_info_t *row = v->data.darray->array;
            for (size_t j = 0; j < v->data.darray->size; j++) {
                printf("  %s.%u on %s runs %s, state %d\n", row[j].proc.nspace, row[j].proc.rank, row[j].hostname,
                       row[j].executable_name, row[j].state);
            }
        } else if (v->type == PMIX_DATA_ARRAY) {
            printf("  %s is an array of type %d\n", results[i].key, v->data.darray->type);
        } else {
            printf("  %s of type %d\n", results[i].key, v->type);
        }
    }
    if (results != NULL) {
        PMIX_INFO_FREE(results, got);
    }
}

static void query(void) {
    pmix_query_t *q;
    bool yes = true;
    pmix_status_t ignored;

    PMIX_QUERY_CREATE(q, 2);
    PMIX_ARGV_APPEND(ignored, q[0].keys, PMIX_QUERY_NAMESPACES);
    PMIX_ARGV_APPEND(ignored, q[1].keys, PMIX_QUERY_JOB_STATUS);
    PMIX_ARGV_APPEND(ignored, q[1].keys, PMIX_QUERY_PROC_TABLE);
    PMIX_QUERY_QUALIFIERS_CREATE(&q[1], 1);
    PMIX_INFO_LOAD(&q[1].qualifiers[0], PMIX_NSPACE, me.nspace, PMIX_STRING);
    ask("query namespaces, status and table", q, 2);
    PMIX_QUERY_FREE(q, 2);

    PMIX_QUERY_CREATE(q, 1);
    PMIX_ARGV_APPEND(ignored, q[0].keys, PMIX_JOB_SIZE);
    PMIX_QUERY_QUALIFIERS_CREATE(&q[0], 2);
    PMIX_INFO_LOAD(&q[0].qualifiers[0], PMIX_PROCID, &me, PMIX_PROC);
    PMIX_INFO_LOAD(&q[0].qualifiers[1], PMIX_QUERY_REFRESH_CACHE, &yes, PMIX_BOOL);
    ask("query of a process, refreshed", q, 1);
    PMIX_QUERY_FREE(q, 1);

    PMIX_QUERY_CREATE(q, 1);
    PMIX_ARGV_APPEND(ignored, q[0].keys, PMIX_QUERY_NUM_GROUPS);
    ask("query groups", q, 1);
    ask("query groups again", q, 1);
    PMIX_QUERY_FREE(q, 1);

    PMIX_QUERY_CREATE(q, 1);
    PMIX_ARGV_APPEND(ignored, q[0].keys, PMIX_QUERY_ATTRIBUTE_SUPPORT);
    PMIX_QUERY_QUALIFIERS_CREATE(&q[0], 1);
    PMIX_INFO_LOAD(&q[0].qualifiers[0], PMIX_SERVER_ATTRIBUTES, "all", PMIX_STRING);
    ask("query attributes", q, 1);
    PMIX_QUERY_FREE(q, 1);

    PMIX_QUERY_CREATE(q, 1);
    PMIX_ARGV_APPEND(ignored, q[0].keys, "pmix.nothing");
    ask("query nothing", q, 1);
    PMIX_ARGV_APPEND(ignored, q[0].keys, PMIX_JOB_SIZE);
    ask("query nothing and something", q, 1);
    PMIX_QUERY_FREE(q, 1);
    (void) ignored;
}

static void resolve(void) {
    pmix_proc_t *procs = NULL;
    size_t n = 0;
    char *nodes = NULL, host[256] = "";
    pmix_value_t *v = NULL;

    if (PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &v) == PMIX_SUCCESS) {
        snprintf(host, sizeof(host), "%s", v->data.string);
        PMIX_VALUE_RELEASE(v);
    }
    said("peers", PMIx_Resolve_peers(host, me.nspace, &procs, &n));
    for (size_t i = 0; i < n; i++) {
        printf("  %s.%u\n", procs[i].nspace, procs[i].rank);
    }
    said("peers of all namespaces", PMIx_Resolve_peers(host, NULL, &procs, &n));
    printf("  %zu\n", n);
    said("peers elsewhere", PMIx_Resolve_peers("elsewhere", me.nspace, &procs, &n));
    said("nodes", PMIx_Resolve_nodes(me.nspace, &nodes));
    printf("  %s\n", nodes == NULL ? "none" : nodes);
}

static void logs(void) {
    pmix_info_t *data, *directives;
    bool yes = true;

    PMIX_INFO_CREATE(data, 2);
    PMIX_INFO_CREATE(directives, 1);
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_STDERR, "to standard error\n", PMIX_STRING);
    PMIX_INFO_LOAD(&data[1], PMIX_LOG_STDOUT, "to standard output", PMIX_STRING);
    said("log to both", PMIx_Log(data, 2, NULL, 0));
    PMIX_INFO_LOAD(&directives[0], PMIX_LOG_ONCE, &yes, PMIX_BOOL);
    said("log once", PMIx_Log(data, 2, directives, 1));
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_SYSLOG, "to the system's log", PMIX_STRING);
    said("log to the system's log", PMIx_Log(data, 1, NULL, 0));
    PMIX_INFO_FREE(data, 2);
    PMIX_INFO_FREE(directives, 1);
}

static void unserved(void) {
    pmix_info_t *info, *results = NULL;
    size_t n = 0;
    uint64_t nodes = 2;
    pmix_byte_object_t cred = {.bytes = "cred", .size = 4};

    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64);
    said("allocate", PMIx_Allocation_request(PMIX_ALLOC_NEW, info, 1, &results, &n));
    pending = 1;
    said("get a credential", await(PMIx_Get_credential_nb(NULL, 0, cred_done, NULL)));
    pending = 1;
    said("validate a credential", await(PMIx_Validate_credential_nb(&cred, NULL, 0, valid_done, NULL)));
    PMIX_INFO_FREE(info, 1);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *arg) {
    (void) id;
    (void) source;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    (void) status;
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
    }
}

static void events(void) {
    pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED, -9999};
    pmix_info_t *info;
    pmix_data_array_t targets = {.type = PMIX_PROC, .size = 1, .array = &me};
    bool yes = true;
    pmix_data_range_t range = PMIX_RANGE_NAMESPACE;

    PMIX_INFO_CREATE(info, 2);
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_HDLR_NAME, "mine", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    pending = 1;
    PMIx_Register_event_handler(codes, 2, info, 2, on_event, reg_done, NULL);
    await(PMIX_SUCCESS);
    said("register two codes", outcome < 0 ? outcome : PMIX_SUCCESS);
    size_t ref = outcome;
    pending = 1;
    PMIx_Register_event_handler(NULL, 0, NULL, 0, on_event, reg_done, NULL);
    await(PMIX_SUCCESS);
    said("register the default handler", outcome < 0 ? outcome : PMIX_SUCCESS);
    PMIX_INFO_FREE(info, 2);

    PMIX_INFO_CREATE(info, 2);
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_CUSTOM_RANGE, &targets, PMIX_DATA_ARRAY);
    pending = 1;
    said("notify a few", await(PMIx_Notify_event(-9999, &me, PMIX_RANGE_CUSTOM, info, 2, op_done, NULL)));
    pending = 1;
    said("notify the namespace", await(PMIx_Notify_event(-9998, &me, PMIX_RANGE_NAMESPACE, info, 1, op_done, NULL)));
    PMIX_INFO_FREE(info, 2);
    pending = 1;
    said("deregister", await(PMIx_Deregister_event_handler(ref, op_done, NULL)));
}

static void groups(void) {
    pmix_proc_t all;
    pmix_info_t *info, *results = NULL;
    size_t n = 0;
    bool yes = true;

    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    said("construct", PMIx_Group_construct("team", &all, 1, info, 1, &results, &n));
    printf("  %zu results\n", n);
    said("destruct", PMIx_Group_destruct("team", NULL, 0));
    said("connect", PMIx_Connect(&all, 1, NULL, 0));
    said("disconnect", PMIx_Disconnect(&all, 1, NULL, 0));
    PMIX_INFO_FREE(info, 1);
}

static void control(void) {
    pmix_info_t *info, *results = NULL;
    size_t n = 0;
    bool yes = true;
    int sig = SIGCONT;
    uint32_t seconds = 60, drops = 2;
    pmix_info_t monitor;

    PMIX_INFO_CREATE(info, 2);
    PMIX_INFO_LOAD(&info[0], PMIX_REGISTER_CLEANUP_DIR, "/nowhere/dir", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_CLEANUP_RECURSIVE, &yes, PMIX_BOOL);
    said("register cleanup", PMIx_Job_control(NULL, 0, info, 2, &results, &n));
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_CTRL_SIGNAL, &sig, PMIX_INT);
    said("signal", PMIx_Job_control(&me, 1, info, 1, &results, &n));
    PMIX_INFO_LOAD(&info[0], PMIX_MONITOR_HEARTBEAT_TIME, &seconds, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_MONITOR_HEARTBEAT_DROPS, &drops, PMIX_UINT32);
    PMIX_INFO_LOAD(&monitor, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    said("monitor", PMIx_Process_monitor(&monitor, PMIX_MONITOR_HEARTBEAT_ALERT, info, 2, &results, &n));
    PMIX_INFO_FREE(info, 2);
    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_SEND_HEARTBEAT, NULL, PMIX_BOOL);
    said("heartbeat", PMIx_Process_monitor_nb(&info[0], PMIX_SUCCESS, NULL, 0, NULL, NULL)); /* has no answer */
    PMIX_INFO_FREE(info, 1);
}

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                      pmix_info_t info[], size_t n) {
    (void) id;
    (void) channel;
    (void) source;
    (void) payload;
    (void) info;
    (void) n;
}

static void forward(void) {
    pmix_proc_t all;
    pmix_byte_object_t input = {.bytes = "input\n", .size = 6};
    pmix_status_t rc;

    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    rc = PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, on_output, NULL, NULL);
    said("pull", rc < 0 ? rc : PMIX_SUCCESS);
    pending = 1;
    said("push", await(PMIx_IOF_push(&all, 1, &input, NULL, 0, op_done, NULL)));
    if (rc >= 0) {
        pending = 1;
        said("stop pulling", await(PMIx_IOF_deregister(rc, NULL, 0, op_done, NULL)));
    }
}

static void spawn(void) {
    pmix_app_t *app;
    pmix_info_t *info;
    pmix_nspace_t child;
    pmix_status_t ignored;
    bool yes = true;

    PMIX_APP_CREATE(app, 1);
    app->cmd = strdup("true");
    PMIX_ARGV_APPEND(ignored, app->argv, "true");
    PMIX_ARGV_APPEND(ignored, app->argv, "-x");
    PMIX_ARGV_APPEND(ignored, app->env, "A=b");
    app->maxprocs = 2;
    app->cwd = strdup("/");
    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_NOTIFY_COMPLETION, &yes, PMIX_BOOL);
    memset(child, 0, sizeof(child));
    said("spawn", PMIx_Spawn(info, 1, app, 1, child));
    printf("  %s\n", child);
    PMIX_APP_FREE(app, 1);
    PMIX_INFO_FREE(info, 1);
    (void) ignored;
}

static void stop(void) {
    pmix_proc_t other;

    PMIX_LOAD_PROCID(&other, me.nspace, 7);
    said("abort of one that is not there", PMIx_Abort(3, "over", &other, 1));
}

/* data: put, commit, fence with the data, and get. */
static void data(void) {
    pmix_value_t v, *got = NULL;
    pmix_proc_t all;
    pmix_info_t *info;
    bool yes = true;

    PMIX_VALUE_CONSTRUCT(&v);
    v.type = PMIX_UINT64;
    v.data.uint64 = 1 << 20;
    said("put", PMIx_Put(PMIX_GLOBAL, "mine", &v));
    said("commit", PMIx_Commit());
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    said("fence", PMIx_Fence(&all, 1, info, 1));
    PMIX_INFO_LOAD(&info[0], PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
    said("get", PMIx_Get(&me, "mine", info, 1, &got));
    PMIX_INFO_LOAD(&info[0], PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    said("get what is not there", PMIx_Get(&me, "other", info, 1, &got));
    PMIX_INFO_FREE(info, 1);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"publish", publish}, {"query", query},   {"resolve", resolve}, {"log", logs},
        {"unserved", unserved}, {"event", events}, {"group", groups},   {"control", control},
        {"forward", forward}, {"spawn", spawn},   {"abort", stop},     {"data", data},
    };
    pmix_status_t rc;

    alarm(60);
    if ((rc = PMIx_Init(&me, NULL, 0)) != PMIX_SUCCESS) {
        said("init", rc);
        return 1;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (argc == 2 && strcmp(argv[1], parts[i].name) == 0) {
            parts[i].run();
            return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
        }
    }
    fprintf(stderr, "usage: speak PART\n");
    return 2;
}
