/* A PMIx client or tool that deals with several jobs. The first argument names its
 * part. It prints a line for each result. */
#include <pmix.h>
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static void said(const char *what, pmix_status_t rc) {
    printf("%s: %s\n", what, PMIx_Error_string(rc));
    fflush(stdout);
}

static void init(void) {
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        said("init", rc);
        exit(1);
    }
}

static void leave(void) { PMIx_Finalize(NULL, 0); }

static pmix_proc_t proc_of(const char *nspace, pmix_rank_t rank) {
    pmix_proc_t p;
    PMIX_LOAD_PROCID(&p, nspace, rank);
    return p;
}

static void show(const char *nspace, pmix_rank_t rank, const char *key) {
    pmix_proc_t p = proc_of(nspace, rank);
    pmix_value_t *v = NULL;
    pmix_status_t rc = PMIx_Get(&p, key, NULL, 0, &v);
    char name[32] = "*";
    if (rank != PMIX_RANK_WILDCARD) {
        snprintf(name, sizeof name, "%u", rank);
    }
    if (rc != PMIX_SUCCESS) {
        printf("%s of %s.%s: %s\n", key, nspace, name, PMIx_Error_string(rc));
    } else if (v->type == PMIX_STRING) {
        printf("%s of %s.%s is %s\n", key, nspace, name, v->data.string);
    } else if (v->type == PMIX_PROC) {
        printf("%s of %s.%s is %s.%u\n", key, nspace, name, v->data.proc->nspace, v->data.proc->rank);
    } else if (v->type == PMIX_UINT32) {
        printf("%s of %s.%s is %u\n", key, nspace, name, v->data.uint32);
    } else if (v->type == PMIX_UINT16) {
        printf("%s of %s.%s is %u\n", key, nspace, name, v->data.uint16);
    } else if (v->type == PMIX_BOOL) {
        printf("%s of %s.%s is %d\n", key, nspace, name, v->data.flag);
    } else {
        printf("%s of %s.%s has type %d\n", key, nspace, name, v->type);
    }
    fflush(stdout);
    if (v != NULL) {
        PMIX_VALUE_RELEASE(v);
    }
}

static void put_name(void) {
    char text[64];
    pmix_value_t v;
    snprintf(text, sizeof text, "this is %s.%u", me.nspace, me.rank);
    PMIX_VALUE_LOAD(&v, text, PMIX_STRING);
    PMIx_Put(PMIX_GLOBAL, "name", &v);
    PMIx_Commit();
}

/* meet A B: all processes of two jobs connect, read each other's data, and disconnect. */
static void meet(const char *a, const char *b) {
    init();
    put_name();
    const char *other = strcmp(me.nspace, a) == 0 ? b : a;
    pmix_proc_t all[2] = {proc_of(a, PMIX_RANK_WILDCARD), proc_of(b, PMIX_RANK_WILDCARD)};
    pmix_status_t rc = PMIx_Connect(all, 2, NULL, 0);
    said("connect", rc);
    if (rc == PMIX_SUCCESS) {
        show(other, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
        show(other, PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
        show(other, 1, PMIX_LOCAL_RANK);
        show(other, 1, "name");
        said("fence", PMIx_Fence(all, 2, NULL, 0));
        said("disconnect", PMIx_Disconnect(all, 2, NULL, 0));
    }
    leave();
}

/* look A: reads another job's data without being connected to it. */
static void look(const char *other) {
    init();
    show(other, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    show(other, 0, PMIX_HOSTNAME);
    show(other, 0, "name");
    show(other, PMIX_RANK_WILDCARD, "pmix.nothing");
    leave();
}

/* serve: publishes data that others read, until its input ends. */
static void serve(void) {
    char line[256];
    init();
    put_name();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("read %s", line);
        fflush(stdout);
    }
    fprintf(stderr, "end of input\n");
    leave();
}

/* vanish: exits without PMIx_Finalize. */
static void vanish(void) {
    init();
    _exit(0);
}

/* pulled prints what comes through I/O forwarding. */
static volatile int lines_pulled;

static void pulled(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *data,
                   pmix_info_t info[], size_t n) {
    (void) id;
    (void) info;
    (void) n;
    if (data == NULL || data->size == 0) {
        return;
    }
    printf("%s of %s.%u: %.*s", channel & PMIX_FWD_STDERR_CHANNEL ? "errors" : "output", source->nspace, source->rank,
           (int) data->size, data->bytes);
    fflush(stdout);
    for (size_t i = 0; i < data->size; i++) {
        if (data->bytes[i] == '\n') {
            __sync_fetch_and_add(&lines_pulled, 1);
        }
    }
}

static void await_lines(int n) {
    while (lines_pulled < n) {
        usleep(1000);
    }
}

/* spawn PROGRAM: starts two children, connects to them and disconnects. */
static void spawn(const char *program) {
    pmix_app_t *app;
    pmix_nspace_t child;
    char *argv[] = {"dynamic", "child", NULL};
    init();
    put_name();
    PMIX_APP_CREATE(app, 1);
    app->cmd = strdup(program);
    PMIX_ARGV_COPY(app->argv, argv);
    app->maxprocs = 2;
    pmix_status_t rc = PMIx_Spawn(NULL, 0, app, 1, child);
    said("spawn", rc);
    PMIX_APP_FREE(app, 1);
    if (rc == PMIX_SUCCESS) {
        show(child, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
        show(child, PMIX_RANK_WILDCARD, PMIX_PARENT_ID);
        pmix_proc_t all[2] = {me, proc_of(child, PMIX_RANK_WILDCARD)};
        said("connect", PMIx_Connect(all, 2, NULL, 0));
        show(child, 1, "name");
        said("disconnect", PMIx_Disconnect(all, 2, NULL, 0));
    }
    PMIX_APP_CREATE(app, 1);
    app->cmd = strdup("/there/is/none");
    app->maxprocs = 1;
    said("spawn of nothing", PMIx_Spawn(NULL, 0, app, 1, child));
    PMIX_APP_FREE(app, 1);
    leave();
}

static void child(void) {
    pmix_proc_t parent;
    pmix_value_t *v;
    init();
    put_name();
    show(me.nspace, me.rank, PMIX_PARENT_ID);
    show(me.nspace, PMIX_RANK_WILDCARD, PMIX_PARENT_ID);
    show(me.nspace, me.rank, PMIX_SPAWNED);
    if (PMIx_Get(&me, PMIX_PARENT_ID, NULL, 0, &v) != PMIX_SUCCESS) {
        exit(1);
    }
    parent = *v->data.proc;
    PMIX_VALUE_RELEASE(v);
    pmix_proc_t all[2] = {parent, proc_of(me.nspace, PMIX_RANK_WILDCARD)};
    said("connect", PMIx_Connect(all, 2, NULL, 0));
    show(parent.nspace, parent.rank, "name");
    show(parent.nspace, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    said("disconnect", PMIx_Disconnect(all, 2, NULL, 0));
    leave();
}

/* attach connects to a server by its URI, or by a file with the URI and the version. */
static void attach(const char *where) {
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, where[0] == '/' ? PMIX_TOOL_ATTACHMENT_FILE : PMIX_SERVER_URI, where, PMIX_STRING);
    pmix_status_t rc = PMIx_tool_init(&me, &info, 1);
    said("tool init", rc);
    if (rc != PMIX_SUCCESS) {
        exit(1);
    }
}

/* pushed reports the end of a push or a pull. A blocking call may hang: libpmix 4.2.2 may not wake its caller. */
static volatile int pushing;
static pmix_status_t outcome;

static void pushed(pmix_status_t rc, void *arg) {
    (void) arg;
    outcome = rc;
    __sync_synchronize();
    pushing = 0;
}

static void push(const char *what, const pmix_proc_t *to, pmix_byte_object_t *text) {
    pushing = 1;
    pmix_status_t rc = PMIx_IOF_push(to, 1, text, NULL, 0, pushed, NULL);
    while (rc == PMIX_SUCCESS && pushing) {
        usleep(1000);
    }
    __sync_synchronize();
    said(what, rc != PMIX_SUCCESS ? rc : outcome);
}

/* tool FILE JOB: attaches, feeds a job's first process, and prints the job's output. */
static void tool(const char *file, const char *job) {
    pmix_status_t rc;
    attach(file);
    printf("named %s.%u\n", me.nspace, me.rank);
    show(job, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    show(job, 0, "name");
    pmix_proc_t all = proc_of(job, PMIX_RANK_WILDCARD), first = proc_of(job, 0);
    pmix_status_t id = PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, pulled, NULL, NULL);
    said("pull", id < 0 ? id : PMIX_SUCCESS);
    pmix_byte_object_t text = {.bytes = "hello\n", .size = 6};
    push("push", &first, &text);
    await_lines(1);
    pmix_byte_object_t nothing = {.bytes = "", .size = 0};
    push("push the end", &first, &nothing);
    await_lines(2);
    pushing = 1;
    rc = PMIx_IOF_deregister(id, NULL, 0, pushed, NULL);
    while (rc == PMIX_SUCCESS && pushing) {
        usleep(1000);
    }
    said("deregister", rc != PMIX_SUCCESS ? rc : outcome);
    said("tool finalize", PMIx_tool_finalize());
}

/* launch URI PROGRAM: a tool that starts a job, and gets the job's output. */
static void launch(const char *uri, const char *program) {
    pmix_app_t *app;
    pmix_nspace_t child;
    char *argv[] = {"dynamic", "say", "hello from a child", NULL};
    attach(uri);
    PMIX_APP_CREATE(app, 1);
    app->cmd = strdup(program);
    PMIX_ARGV_COPY(app->argv, argv);
    app->maxprocs = 1;
    pmix_status_t rc = PMIx_Spawn(NULL, 0, app, 1, child);
    said("spawn", rc);
    PMIX_APP_FREE(app, 1);
    getchar(); /* the child's output passes through this process while it waits */
    said("tool finalize", PMIx_tool_finalize());
}

static void say(const char *text) {
    init();
    printf("%s\n", text);
    fflush(stdout);
    leave();
}

/* helper: a process of a job that is a tool, too. */
static void helper(void) {
    said("tool init", PMIx_tool_init(&me, NULL, 0));
    printf("named %s.%u\n", me.nspace, me.rank);
    show(me.nspace, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    said("tool finalize", PMIx_tool_finalize());
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    const char *a = argc > 2 ? argv[2] : "", *b = argc > 3 ? argv[3] : "";
    if (strcmp(part, "meet") == 0) {
        meet(a, b);
    } else if (strcmp(part, "look") == 0) {
        look(a);
    } else if (strcmp(part, "serve") == 0) {
        serve();
    } else if (strcmp(part, "vanish") == 0) {
        vanish();
    } else if (strcmp(part, "spawn") == 0) {
        spawn(a);
    } else if (strcmp(part, "child") == 0) {
        child();
    } else if (strcmp(part, "tool") == 0) {
        tool(a, b);
    } else if (strcmp(part, "launch") == 0) {
        launch(a, b);
    } else if (strcmp(part, "say") == 0) {
        say(a);
    } else if (strcmp(part, "helper") == 0) {
        helper();
    } else {
        fprintf(stderr, "part %s is unknown\n", part);
        return 2;
    }
    return 0;
}
