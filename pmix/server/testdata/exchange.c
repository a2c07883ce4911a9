/* Two PMIx clients that exchange published data. Rank 0 publishes and leaves. Rank 1
 * looks up before, meanwhile and afterwards. Each prints its results. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static void said(const char *what, pmix_status_t rc) {
    printf("%s: %s\n", what, PMIx_Error_string(rc));
}

static void fence(void) {
    pmix_proc_t all;
    pmix_status_t rc;

    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if ((rc = PMIx_Fence(&all, 1, NULL, 0)) != PMIX_SUCCESS) {
        said("fence", rc);
        exit(1);
    }
}

static void publish(const char *key, pmix_data_range_t range, pmix_persistence_t persist, pmix_proc_t *only) {
    pmix_data_array_t members = {.type = PMIX_PROC, .size = 1, .array = only};
    pmix_info_t *info;
    pmix_status_t rc;
    size_t n = only == NULL ? 3 : 4;

    PMIX_INFO_CREATE(info, n);
    PMIX_INFO_LOAD(&info[0], key, "value", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    PMIX_INFO_LOAD(&info[2], PMIX_PERSISTENCE, &persist, PMIX_PERSIST);
    if (only != NULL) {
        PMIX_INFO_LOAD(&info[3], PMIX_EVENT_CUSTOM_RANGE, &members, PMIX_DATA_ARRAY);
    }
    if ((rc = PMIx_Publish(info, n)) != PMIX_SUCCESS) {
        said(key, rc);
    }
    PMIX_INFO_FREE(info, n);
}

static pmix_status_t lookup(const char *key, int wait, int seconds) {
    pmix_pdata_t *data;
    pmix_info_t *info;
    pmix_status_t rc;

    PMIX_PDATA_CREATE(data, 1);
    PMIX_LOAD_KEY(data[0].key, key);
    PMIX_INFO_CREATE(info, 2);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &wait, PMIX_INT);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    rc = PMIx_Lookup(data, 1, info, wait < 0 ? 0 : 2);
    if (rc == PMIX_SUCCESS && (data[0].proc.rank != 0 || strcmp(data[0].value.data.string, "value") != 0)) {
        rc = PMIX_ERR_INVALID_VAL;
    }
    PMIX_INFO_FREE(info, 2);
    PMIX_PDATA_FREE(data, 1);
    return rc;
}

static void publisher(void) {
    pmix_proc_t other;

    fence(); /* rank 1 may be waiting already, or not yet; both must work */
    publish("awaited", PMIX_RANGE_SESSION, PMIX_PERSIST_FIRST_READ, NULL);
    publish("own", PMIX_RANGE_PROC_LOCAL, PMIX_PERSIST_INDEF, NULL);
    PMIX_LOAD_PROCID(&other, me.nspace, 1);
    publish("for 1", PMIX_RANGE_CUSTOM, PMIX_PERSIST_INDEF, &other);
    PMIX_LOAD_PROCID(&other, me.nspace, 0);
    publish("for 0", PMIX_RANGE_CUSTOM, PMIX_PERSIST_INDEF, &other);
    publish("of the process", PMIX_RANGE_NAMESPACE, PMIX_PERSIST_PROC, NULL);
    publish("of the application", PMIX_RANGE_LOCAL, PMIX_PERSIST_APP, NULL);
    said("own", lookup("own", -1, 0));
    fence();
    fence();
}

static void reader(void) {
    static const char *const keys[] = {"awaited", "own", "for 1", "for 0", "of the process", "of the application"};

    fence();
    said("awaited", lookup("awaited", 0, 30));
    fence();
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        said(keys[i], lookup(keys[i], -1, 0));
    }
    said("what never comes", lookup("nothing", 1, 1));
    fence();
    while (lookup("of the process", -1, 0) == PMIX_SUCCESS) { /* until rank 0 has ended */
    }
    said("of the process that has ended", lookup("of the process", -1, 0));
    said("of the application that has not", lookup("of the application", -1, 0));
}

int main(void) {
    alarm(60);
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) {
        return 1;
    }
    if (me.rank == 0) {
        publisher();
    } else {
        reader();
    }
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
