/* A PMIx client that executes the commands that it reads, one a line. It prints a
 * line for each action and for each event that its handlers see. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 16

static pmix_proc_t me;

/* words of the current command */
static char *words[MOST];
static int nwords;

static void said(const char *what, pmix_status_t rc) {
    printf("%s: %s\n", what, PMIx_Error_string(rc));
    fflush(stdout);
}

static int find(const char *word) {
    for (int i = 0; i < nwords; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return 0;
}

/* numbers parses words as numbers, from a given word on until one is not a number. */
static int numbers(int from, long out[]) {
    int n = 0;
    char *end;
    for (int i = from; i < nwords; i++) {
        long v = strtol(words[i], &end, 10);
        if (*end != 0) {
            break;
        }
        out[n++] = v;
    }
    return n;
}

static pmix_proc_t peer(long rank) {
    pmix_proc_t p;
    PMIX_LOAD_PROCID(&p, me.nspace, rank < 0 ? PMIX_RANK_WILDCARD : (pmix_rank_t) rank);
    return p;
}

static int peers(int from, pmix_proc_t out[]) {
    long ranks[MOST];
    int n = numbers(from, ranks);
    for (int i = 0; i < n; i++) {
        out[i] = peer(ranks[i]);
    }
    return n;
}

static void load_procs(pmix_info_t *info, const char *key, pmix_proc_t *procs, int n) {
    pmix_data_array_t list = {.type = PMIX_PROC, .size = n, .array = procs};
    PMIX_INFO_LOAD(info, key, &list, PMIX_DATA_ARRAY);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *arg) {
    const char *name = "";
    char about[64] = "", group[64] = "", code[64] = "";
    (void) id;
    (void) results;
    for (size_t i = 0; i < ninfo; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_HDLR_NAME)) {
            name = info[i].value.data.string;
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) {
            snprintf(about, sizeof about, " about %u", info[i].value.data.proc->rank);
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_GROUP_ID)) {
            snprintf(group, sizeof group, " group %s", info[i].value.data.string);
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_EXIT_CODE)) {
            snprintf(code, sizeof code, " code %d", info[i].value.data.integer);
        }
    }
    printf("%s: %d from %u%s%s%s after %zu\n", name, status, source->rank, about, group, code, nresults);
    fflush(stdout);
    done(strcmp(name, "stop") == 0 ? PMIX_EVENT_ACTION_COMPLETE : PMIX_SUCCESS, NULL, 0, NULL, NULL, arg);
}

/* register NAME [first|last] CODE... */
static void do_register(void) {
    long codes[MOST];
    pmix_status_t list[MOST];
    pmix_info_t info[2];
    int n = numbers(find("first") || find("last") ? 3 : 2, codes);
    for (int i = 0; i < n; i++) {
        list[i] = (pmix_status_t) codes[i];
    }
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_HDLR_NAME, words[1], PMIX_STRING);
    if (find("first")) {
        PMIX_INFO_LOAD(&info[1], PMIX_EVENT_HDLR_FIRST, NULL, PMIX_BOOL);
    } else if (find("last")) {
        PMIX_INFO_LOAD(&info[1], PMIX_EVENT_HDLR_LAST, NULL, PMIX_BOOL);
    }
    int rc = PMIx_Register_event_handler(n > 0 ? list : NULL, n, info, find("first") || find("last") ? 2 : 1, on_event,
                                         NULL, NULL);
    said("register", rc < 0 ? rc : PMIX_SUCCESS);
}

/* notify CODE local|nspace|proc|session | notify CODE to RANK... ; options: about RANK, reserved, nocache */
static void do_notify(void) {
    pmix_info_t info[4];
    pmix_proc_t targets[MOST], about;
    pmix_data_range_t range = PMIX_RANGE_NAMESPACE;
    int n = 0, at;
    if ((at = find("to"))) {
        range = PMIX_RANGE_CUSTOM;
        load_procs(&info[n++], PMIX_EVENT_CUSTOM_RANGE, targets, peers(at + 1, targets));
    } else if (find("local")) {
        range = PMIX_RANGE_LOCAL;
    } else if (find("proc")) {
        range = PMIX_RANGE_PROC_LOCAL;
    } else if (find("session")) {
        range = PMIX_RANGE_SESSION;
    }
    if ((at = find("about"))) {
        about = peer(atol(words[at + 1]));
        PMIX_INFO_LOAD(&info[n++], PMIX_EVENT_AFFECTED_PROC, &about, PMIX_PROC);
    }
    if (find("reserved")) {
        PMIX_INFO_LOAD(&info[n++], PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
    }
    if (find("nocache")) {
        PMIX_INFO_LOAD(&info[n++], PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
    }
    said("notify", PMIx_Notify_event(atoi(words[1]), &me, range, info, n, NULL, NULL));
}

/* construct ID RANK... ; options: number, notify, tolerant */
static void do_construct(void) {
    pmix_info_t info[3], *results = NULL;
    pmix_proc_t procs[MOST];
    size_t nresults = 0;
    int n = 0;
    if (find("number")) {
        PMIX_INFO_LOAD(&info[n++], PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
    }
    if (find("notify")) {
        PMIX_INFO_LOAD(&info[n++], PMIX_GROUP_NOTIFY_TERMINATION, NULL, PMIX_BOOL);
    }
    if (find("tolerant")) {
        PMIX_INFO_LOAD(&info[n++], PMIX_GROUP_FT_COLLECTIVE, NULL, PMIX_BOOL);
    }
    pmix_status_t rc = PMIx_Group_construct(words[1], procs, peers(2, procs), info, n, &results, &nresults);
    if (rc == PMIX_SUCCESS && nresults == 1 && results[0].value.data.size != SIZE_MAX) {
        printf("context %zu\n", results[0].value.data.size);
    }
    said("construct", rc);
}

static void do_invite(void) {
    pmix_info_t *results = NULL;
    pmix_proc_t procs[MOST];
    size_t nresults = 0;
    said("invite", PMIx_Group_invite(words[1], procs, peers(2, procs), NULL, 0, &results, &nresults));
}

static void do_answer(pmix_group_opt_t opt) {
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    pmix_proc_t leader = peer(atol(words[2]));
    said(words[0], PMIx_Group_join(words[1], &leader, opt, NULL, 0, &results, &nresults));
}

/* cleanup file|dir|ignore PATH [recursive] [leavetop] [me] */
static void do_cleanup(void) {
    pmix_info_t info[3], *results = NULL;
    size_t nresults = 0;
    int n = 1;
    const char *key = find("dir") ? PMIX_REGISTER_CLEANUP_DIR : find("ignore") ? PMIX_CLEANUP_IGNORE : PMIX_REGISTER_CLEANUP;
    PMIX_INFO_LOAD(&info[0], key, words[2], PMIX_STRING);
    if (find("recursive")) {
        PMIX_INFO_LOAD(&info[n++], PMIX_CLEANUP_RECURSIVE, NULL, PMIX_BOOL);
    }
    if (find("leavetop")) {
        PMIX_INFO_LOAD(&info[n++], PMIX_CLEANUP_LEAVE_TOPDIR, NULL, PMIX_BOOL);
    }
    int mine = find("me");
    said("cleanup", PMIx_Job_control(mine ? &me : NULL, mine ? 1 : 0, info, n, &results, &nresults));
}

/* kill RANK | signal RANK NUMBER */
static void do_control(void) {
    pmix_info_t info, *results = NULL;
    size_t nresults = 0;
    pmix_proc_t target = peer(atol(words[1]));
    if (nwords > 2) {
        int sig = atoi(words[2]);
        PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_SIGNAL, &sig, PMIX_INT);
    } else {
        PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_KILL, NULL, PMIX_BOOL);
    }
    said(words[0], PMIx_Job_control(&target, 1, &info, 1, &results, &nresults));
}

/* monitor SECONDS DROPS */
static void do_monitor(void) {
    pmix_info_t monitor, info[2], *results = NULL;
    size_t nresults = 0;
    uint32_t seconds = atoi(words[1]), drops = atoi(words[2]);
    PMIX_INFO_LOAD(&monitor, PMIX_MONITOR_HEARTBEAT, NULL, PMIX_POINTER); /* like PMIx's own examples */
    PMIX_INFO_LOAD(&info[0], PMIX_MONITOR_HEARTBEAT_TIME, &seconds, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_MONITOR_HEARTBEAT_DROPS, &drops, PMIX_UINT32);
    said("monitor", PMIx_Process_monitor(&monitor, PMIX_MONITOR_HEARTBEAT_ALERT, info, 2, &results, &nresults));
}

static void act(void) {
    const char *what = words[0];
    if (strcmp(what, "register") == 0) {
        do_register();
    } else if (strcmp(what, "deregister") == 0) {
        said(what, PMIx_Deregister_event_handler(atoi(words[1]), NULL, NULL));
    } else if (strcmp(what, "notify") == 0) {
        do_notify();
    } else if (strcmp(what, "construct") == 0) {
        do_construct();
    } else if (strcmp(what, "destruct") == 0) {
        said(what, PMIx_Group_destruct(words[1], NULL, 0));
    } else if (strcmp(what, "leave") == 0) {
        said(what, PMIx_Group_leave(words[1], NULL, 0));
    } else if (strcmp(what, "invite") == 0) {
        do_invite();
    } else if (strcmp(what, "join") == 0) {
        do_answer(PMIX_GROUP_ACCEPT);
    } else if (strcmp(what, "decline") == 0) {
        do_answer(PMIX_GROUP_DECLINE);
    } else if (strcmp(what, "cleanup") == 0) {
        do_cleanup();
    } else if (strcmp(what, "kill") == 0 || strcmp(what, "signal") == 0) {
        do_control();
    } else if (strcmp(what, "monitor") == 0) {
        do_monitor();
    } else if (strcmp(what, "beat") == 0) {
        PMIx_Heartbeat();
        said(what, PMIX_SUCCESS);
    } else if (strcmp(what, "fence") == 0) {
        said(what, PMIx_Fence(NULL, 0, NULL, 0));
    } else if (strcmp(what, "abort") == 0) {
        PMIx_Abort(atoi(words[1]), "enough", NULL, 0);
    } else if (strcmp(what, "exit") == 0) {
        _exit(atoi(words[1]));
    } else {
        printf("no command %s\n", what);
        fflush(stdout);
    }
}

int main(void) {
    char line[4096];
    pmix_status_t rc;

    alarm(60);
    if ((rc = PMIx_Init(&me, NULL, 0)) != PMIX_SUCCESS) {
        said("init", rc);
        return 1;
    }
    said("init", rc);
    while (fgets(line, sizeof line, stdin) != NULL) {
        nwords = 0;
        for (char *w = strtok(line, " \n"); w != NULL && nwords < MOST; w = strtok(NULL, " \n")) {
            words[nwords++] = w;
        }
        if (nwords > 0) {
            act();
        }
    }
    rc = PMIx_Finalize(NULL, 0);
    said("finalize", rc);
    return rc == PMIX_SUCCESS ? 0 : 1;
}
